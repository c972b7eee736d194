#include "textflag.h"

// func findAVX2(b *byte, blocks int, out *marks) (control, wide uint32)
TEXT ·findAVX2(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVQ out+16(FP), DI

	// What is looked for, in each of 32 bytes. VMOVQ and not MOVQ: an SSE instruction
	// between AVX ones costs more than a kilobyte of text.
	MOVQ $0x2222222222222222, AX // a quote
	VMOVQ AX, X0
	VPBROADCASTQ X0, Y0
	MOVQ $0x5c5c5c5c5c5c5c5c, AX // a backslash
	VMOVQ AX, X1
	VPBROADCASTQ X1, Y1
	MOVQ $0x2020202020202020, AX // the bit between brackets and braces
	VMOVQ AX, X2
	VPBROADCASTQ X2, Y2
	MOVQ $0x7b7b7b7b7b7b7b7b, AX // an opening brace
	VMOVQ AX, X3
	VPBROADCASTQ X3, Y3
	MOVQ $0x7d7d7d7d7d7d7d7d, AX // a closing one
	VMOVQ AX, X4
	VPBROADCASTQ X4, Y4
	MOVQ $0x1f1f1f1f1f1f1f1f, AX // the last control character
	VMOVQ AX, X5
	VPBROADCASTQ X5, Y5
	VPXOR Y6, Y6, Y6 // control characters so far
	VPXOR Y7, Y7, Y7 // all bytes so far, for their highest bits

block:
	VMOVDQU (SI), Y8
	VMOVDQU 32(SI), Y9

	VPOR Y8, Y7, Y7
	VPOR Y9, Y7, Y7
	VPMINUB Y8, Y5, Y10
	VPMINUB Y9, Y5, Y11
	VPCMPEQB Y10, Y8, Y10
	VPCMPEQB Y11, Y9, Y11
	VPOR Y10, Y6, Y6
	VPOR Y11, Y6, Y6

	VPCMPEQB Y8, Y0, Y10
	VPCMPEQB Y9, Y0, Y11
	VPMOVMSKB Y10, AX
	VPMOVMSKB Y11, BX
	SHLQ $32, BX
	ORQ BX, AX
	MOVQ AX, 0(DI)

	VPCMPEQB Y8, Y1, Y10
	VPCMPEQB Y9, Y1, Y11
	VPMOVMSKB Y10, AX
	VPMOVMSKB Y11, BX
	SHLQ $32, BX
	ORQ BX, AX
	MOVQ AX, 8(DI)

	VPOR Y8, Y2, Y8
	VPOR Y9, Y2, Y9
	VPCMPEQB Y8, Y3, Y10
	VPCMPEQB Y9, Y3, Y11
	VPMOVMSKB Y10, AX
	VPMOVMSKB Y11, BX
	SHLQ $32, BX
	ORQ BX, AX
	MOVQ AX, 16(DI)

	VPCMPEQB Y8, Y4, Y10
	VPCMPEQB Y9, Y4, Y11
	VPMOVMSKB Y10, AX
	VPMOVMSKB Y11, BX
	SHLQ $32, BX
	ORQ BX, AX
	MOVQ AX, 24(DI)

	ADDQ $64, SI
	ADDQ $32, DI
	DECQ CX
	JNZ block

	VPMOVMSKB Y6, AX
	MOVL AX, control+24(FP)
	VPMOVMSKB Y7, AX
	MOVL AX, wide+28(FP)
	VZEROUPPER
	RET
