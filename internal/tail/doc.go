// Package tail shows journal lines to people. The lines come from package journal's Reader.
//
//	File, Stream  where lines come from: a journal's files, followed over rotation; or a pipe
//	Line          what a line says before its object
//	Filter        which lines to show
//	Printer       a line as text in columns, or as it is
//
// # What a reader may rely on
//
// File shows every line of the journal once, from the first that is asked for, in the order of seq: when the active
// file is rotated by the daemon or renamed by logrotate, when several rotations happen between two checks, when it is
// removed, truncated or put in the place of another. Where lines went with a removed file before they could be read, a
// notice names them.
//
// A line is shown when its end is there. Until then nothing of it is kept: a daemon that starts after a crash cuts a
// torn line off and writes another in its place.
//
// # How it knows
//
// seq rises by one from line to line. The first line of each further file is compared with the last one shown: lines
// up to that one, no newer than it, are what the daemon carried over; a line that lies further on says which are
// missing, and those are looked for in the rotated files. Within the active file, after each read, the last line taken
// must still stand where it stood; else the file was truncated or written anew and is read again from its beginning.
//
// A journal that begins anew under the same name has lines that are newer with a lower seq, and is shown from its first
// line. Where the clock was set back meanwhile, it is taken for a repetition until its time passes that of the last line.
//
// # What reaches a terminal
//
// Names and messages come from whoever may write to the cluster. Whatever does not print (control characters, those
// that turn the direction of text) is shown as an escape such as \x1b, in text and in JSON.
//
// The memory used is bounded by the longest line. The object in a line is passed over, not checked.
package tail
