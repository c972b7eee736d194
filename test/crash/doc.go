// Package crash stops the real program at each of its durable steps.
//
// The program runs under ptrace. Every system call by which it changes something durable in its data folder, and every
// sync, is an Operation with a number. A Plan is asked before and after each one and may
//
//	kill the program before the operation, or after it
//	let it fail without being done
//	let it be done and fail all the same
//	let a write be short
//
// A power cut is a kill after which Image puts the folder back to what the syncs up to then have made durable: of each
// file what stood in it at its last fsync or fdatasync, of the names those of the last fsync of the folder. What was
// not synced may also have come to the disk: then any part of it may.
//
// # How
//
// A small program (confine) installs a seccomp filter that stops the caller at the system calls in question, and then
// becomes the program under test, so that all others run at full speed. Operations are done one at a time: a thread
// that comes to one while another is under way is held until that has ended. Nothing in the folder changes but between
// the begin and the end that a Plan is told of, which is what makes Image exact.
//
// The package runs on linux/amd64, and needs the right to trace its own children (some containers take it away).
package crash
