// Package coverage keeps, beside a journal file, from when to when each stream was watched: the intervals of time in
// which every change that the server made is in the journal.
//
//	journal.jsonl             the journal's active file
//	journal.jsonl.coverage    this file; output to stdout has none
//
// # What is claimed
//
// Of an entry that holds changes back (types, filter, excludeNamespaces, ignoreFields, initial: skip), these are the
// changes that are left; an interval names the keys of the entries that it had. Times are by
// the daemon's clock; while it does not run, nobody sees that the clock is set back.
//
// An interval holds each time t with From <= t < To. It begins at a SYNCED line and ends at the last time at which the
// stream was seen to have read all that the server had sent (see internal/watcher/confirm.go). A late one is complete
// too, but the lines about it came as late as at its end: the daemon was down or could not reach the server, and the
// watch went on from its position. A GAP ends an interval; so does a stop, and the removal of a stream from the config.
//
// # Crash discipline
//
// A record says nothing that was not true when it was written, and what it says stays true: a time that it claims was
// committed before, lines first, and nothing of a committed line changes. So whichever versions of whichever records a
// crash, a torn write or a power cut leaves, together they claim no more than the newest, and no write waits for a
// sync: one a minute keeps a power cut from taking more. Only what makes a record false must be on disk first: a start
// that finds lines missing replaces the file before it writes a line (see Open). The order is write -> fsync -> commit
// -> publish -> coverage.
//
// A pulse moves the end of a quiet stream's interval without a commit. It is the one thing that may turn out to be
// wrong, where a watch has stalled while the server answers. So a record says apart what pulses alone have confirmed,
// and keeps it over the end of a process. It is taken back by the first line that a watch brings after it stalled or
// was opened again, in this process or in a later one: from the time on at which its change was made, and all of it
// where the line has no such time. Changes come in order, so nothing before that time is missing, and what pulses
// have confirmed up to it stays. A GAP takes all of the rest back: what it hides has no line. Until then it is
// claimed, and what is confirmed later confirms it. Where pulses alone have confirmed an interval, the pulses of
// the one before may be taken back with it: records of a higher serial number replace both. If pulses alone
// have confirmed an interval since its list, what is left of it is a point: the list was complete then.
//
// # The file
//
// Records of 64 bytes, integers little-endian, times in Unix nanoseconds. A record is read wherever it lies; one whose
// checksum does not fit is passed over.
//
//	0       header       magic "kubejournal-cov\n" (16), version (4), slots in each table (4), salt (4), 0 (32),
//	                     CRC-32C of the 60 bytes before (4)
//	64      slots        0, up to a multiple of 512: a slot never lies across two sectors
//	512     table A      a slot for each stream: its last interval, overwritten in place
//	        table B      the same; a write goes to one and the next write to the other
//	        log          names, segments and the intervals before the last, appended
//
// A record is one of these; its checksum is the CRC-32C of the 60 bytes before, which begins with the salt of the file,
// so that no record of another file counts:
//
//	        interval                  segment                    name
//	0       1                         2                          3
//	1       1: late                   1: its beginning is gone   number of this part
//	2       reason of its end (1)     0                          length of the name (2)
//	3       keys that held back (1)   0
//	4       stream (4)                CRC of its beginning (4)   stream (4)
//	8       since (8)                 time of its begin (8)      part of the name (48)
//	16      from (8)                  seq of its first line (8)
//	24      to (8)                    that of the segment before (8)
//	32      seq of the commit (8)     the same (8)
//	40      differences (4)           0 (4)
//	44      pulse (4)                 0 (4)
//	48      serial number (8)         the same (8)
//	56      leaseDuration (4)         0 (4)                      0 (4)
//	60      CRC-32C (4)               CRC-32C (4)                CRC-32C (4)
//
// Of several intervals of a stream with the same since, from and lateness the one with the highest serial number
// counts. since is the time of the SYNCED line that they follow, as the checkpoint has it too: a stream continues with
// an interval only where that is the same, so that no GAP that this file has missed is passed over. differences is how
// many objects differed between the line before that SYNCED and it. pulse is how many seconds after to the interval
// reaches by pulses alone. Of the keys, bit n stands for HoldingBack[n]. leaseDuration is that of leader election in
// seconds, 0 without it and where it is longer than a day.
//
// A write is one pwrite of the log's end, where something was added, and then one of the slots that changed.
//
// # Which journal it belongs to
//
// A segment record names a segment of the journal, by the seq of its first line and a checksum of its beginning, and
// the time from which on all lines received are in it or in a later one. An interval that continues in another segment
// continues in another record. So a time of an interval counts only where the segments are there that may hold its
// lines: from the one that was active then to the one of the interval's commit; and intervals go with the segments that
// retention removes, under whatever names others have rotated them. An interval whose commit is beyond the journal's
// last line does not count. What is lost within a file, and files of which no commit has seen a line, are not noticed
// here: seq shows it.
package coverage

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"kubejournal/internal/host/disk"
)

// Why an interval has ended, beside the reasons of GAP lines.
const (
	Unknown     = "Unknown"     // the daemon was killed, or what follows is not in the coverage file
	Stopped     = "Stopped"     // the daemon was
	Removed     = "Removed"     // the stream was, from the config
	Interrupted = "Interrupted" // a late interval follows
	CaughtUp    = "CaughtUp"    // of a late one
	HandedOver  = "HandedOver"  // another replica writes
	Silent      = "Silent"      // a late interval follows: for longer than pulses take, nothing had confirmed it

	// Lost says that lines follow which are not in the journal's files. A reader finds that out; no record has it.
	Lost = "Lost"

	continued = "Continued" // in the next record, whose lines are in a later segment
)

// reasons are what a record's reason means, by number; 0 is none. Later versions append to them.
var reasons = [...]string{
	"", Unknown, Stopped, Removed, Interrupted, CaughtUp, continued,
	"Expired", "PositionAheadOfServer", "PositionRefused", "CheckpointLost", "JournalTruncated",
	Unknown, // 12, which is not written
	HandedOver, Silent,
}

// HoldingBack are the keys of an entry that keep changes out of the journal, and LeaderElection. Later versions append
// to them.
var HoldingBack = [...]string{"types", "filter", "excludeNamespaces", "ignoreFields", Initial, LeaderElection}

// Initial among the keys that hold changes back says that the first list may have been taken without lines.
const Initial = "initial"

// LeaderElection among the keys that hold changes back says that another replica may have written what is not in the
// journal, while it was not this one's term.
const LeaderElection = "leaderElection"

func reasonNumber(reason string) byte { return byte(max(1, slices.Index(reasons[:], reason))) }

func reasonText(n byte) string {
	if int(n) < len(reasons) {
		return reasons[n]
	}
	return Unknown // of a later version
}

// isGap reports whether a reason is that of a GAP line.
func isGap(n byte) bool {
	return n >= reasonNumber("Expired") && n <= reasonNumber("JournalTruncated")
}

const (
	suffix = ".coverage"

	magic      = "kubejournal-cov\n"
	version    = 1
	recordSize = 64
	tableStart = 512 // bytes before the first table
	sector     = 512 / recordSize
	sumAt      = recordSize - 4

	kindInterval = 1
	kindSegment  = 2
	kindName     = 3
	flagLate     = 1
	flagGone     = 1

	leaseAt  = 56
	maxLease = 24 * 60 * 60 // seconds

	nameAt   = 8
	namePart = 48
	maxName  = 255 * namePart // a stream with a longer name is not recorded
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Path returns the path of the coverage file of the journal at path, which may be a symbolic link.
func Path(journal string) string {
	return disk.Real(journal) + suffix
}

// interval is one record of its kind. The zero value is none.
type interval struct {
	late            bool
	reason          byte // 0 while it continues
	heldBack        byte // bits of HoldingBack
	since, from, to int64
	seq             uint64
	differences     int64
	serial          uint64
	lease           uint32 // seconds
	pulse           uint32 // seconds after to
	lost            bool   // what followed was, see cut; not in the file
}

// end returns up to when the interval claims to reach.
func (i *interval) end() int64 {
	return i.to + min(int64(i.pulse)*int64(time.Second), math.MaxInt64-max(i.to, 0)) // files are anybody's
}

// pulseTo moves the end, in whole seconds from to.
func (i *interval) pulseTo(end int64) {
	i.pulse = uint32(min(max(end-i.to, 0)/int64(time.Second), math.MaxUint32))
}

// pulsePast returns the first end of whole seconds that is not before a time.
func (i *interval) pulsePast(t int64) int64 {
	past := max(t-i.to, 0)
	return i.to + (past+int64(time.Second)-1)/int64(time.Second)*int64(time.Second)
}

func (i *interval) empty() bool { return i.end() <= i.from }

// isPoint reports whether an interval says only that its list was complete, before a GAP. For a replica this may be
// a takeover instead, and what it found may be in another one's lines.
func (i *interval) isPoint() bool {
	replica := i.lease > 0 || slices.Contains(heldBack(i.heldBack, nil), LeaderElection)
	return i.empty() && i.since == i.from && isGap(i.reason) && !replica
}

// void reports whether an interval says nothing: not even that a list was complete.
func (i *interval) void() bool { return i.to < i.from || i.from == 0 }

// segmentRecord is one record of its kind.
type segmentRecord struct {
	head          uint32
	time          int64
	first, before uint64 // seq of the first line, and that of the segment before; 0 for none
	seq           uint64
	serial        uint64
	gone          bool // it was, before its beginning could be read
}

func appendInterval(dst []byte, salt, stream uint32, i *interval) []byte {
	flags := byte(0)
	if i.late {
		flags = flagLate
	}
	dst = append(dst, kindInterval, flags, i.reason, i.heldBack)
	return appendNumbers(dst, salt, i.lease, stream,
		uint64(i.since), uint64(i.from), uint64(i.to), i.seq,
		uint64(uint32(i.differences))|uint64(i.pulse)<<32, i.serial)
}

func appendSegment(dst []byte, salt uint32, s *segmentRecord) []byte {
	flags := byte(0)
	if s.gone {
		flags = flagGone
	}
	dst = append(dst, kindSegment, flags, 0, 0)
	return appendNumbers(dst, salt, 0, s.head, uint64(s.time), s.first, s.before, s.seq, 0, s.serial)
}

func appendNumbers(dst []byte, salt, end, word uint32, numbers ...uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, word)
	for _, n := range numbers {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return appendSum(binary.LittleEndian.AppendUint32(dst, end), salt)
}

// appendSum ends a record with its checksum.
func appendSum(dst []byte, salt uint32) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Update(salt, castagnoli, dst[len(dst)-sumAt:]))
}

// appendName appends the records of a stream's name.
func appendName(dst []byte, salt, stream uint32, name string) []byte {
	for n := 0; n*namePart < len(name); n++ {
		var part [namePart + 4]byte
		copy(part[:namePart], name[n*namePart:])
		dst = append(dst, kindName, byte(n))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name)))
		dst = binary.LittleEndian.AppendUint32(dst, stream)
		dst = appendSum(append(dst, part[:]...), salt)
	}
	return dst
}

func header(slots, salt uint32) []byte {
	dst := []byte(magic)
	for _, n := range []uint32{version, slots, salt} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	dst = appendSum(append(dst, make([]byte, sumAt-28)...), 0)
	return append(dst, make([]byte, tableStart-recordSize)...)
}
