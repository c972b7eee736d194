#include "textflag.h"

// FILL sets each of the 32 bytes of y, whose lower half is x. VMOVQ and not MOVQ: an SSE
// instruction between AVX ones costs more than a kilobyte of text.
#define FILL(bytes, x, y) \
	MOVQ bytes, AX; \
	VMOVQ AX, x; \
	VPBROADCASTQ x, y

// MARK stores a bit for each byte of Y8 and Y9 that equals those of want.
#define MARK(want, offset) \
	VPCMPEQB Y8, want, Y10; \
	VPCMPEQB Y9, want, Y11; \
	VPMOVMSKB Y10, AX; \
	VPMOVMSKB Y11, BX; \
	SHLQ $32, BX; \
	ORQ BX, AX; \
	MOVQ AX, offset(DI)

// func findAVX2(b *byte, blocks int, out *marks) (control, wide uint32)
TEXT ·findAVX2(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVQ out+16(FP), DI

	// What is looked for.
	FILL($0x2222222222222222, X0, Y0) // a quote
	FILL($0x5c5c5c5c5c5c5c5c, X1, Y1) // a backslash
	FILL($0x2020202020202020, X2, Y2) // the bit between brackets and braces
	FILL($0x7b7b7b7b7b7b7b7b, X3, Y3) // an opening brace
	FILL($0x7d7d7d7d7d7d7d7d, X4, Y4) // a closing one
	FILL($0x1f1f1f1f1f1f1f1f, X5, Y5) // the last control character
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

	MARK(Y0, 0)
	MARK(Y1, 8)
	VPOR Y8, Y2, Y8
	VPOR Y9, Y2, Y9
	MARK(Y3, 16)
	MARK(Y4, 24)

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
