package line

import "bytes"

// What is cut in a truncated line is marked, in strings that no value of such a line looks like otherwise:
//
//	"nginx:1.2…[cut 20480 bytes]"   a value of 20,480 bytes of JSON: of a string the beginning, of others nothing
//	"…":"…[cut 12 members]"         the last member of an object: 12 others are left out
//	"…[cut 12 elements]"            the last element of a list: 12 elements are left out after those before it
const (
	MarkBegin   = "…[cut "
	MarkBytes   = " bytes]"
	MarkMembers = " members]"
	MarkItems   = " elements]"

	// LeftOut is the key of the member that marks an object of which members are left out.
	LeftOut = "…"
)

// IsCut reports whether a string of a truncated line, without quotes and escapes, marks a cut.
func IsCut(s []byte) bool {
	unit := unitOf(s)
	return unit == MarkBytes || unit == MarkMembers || unit == MarkItems
}

// IsLeftOut reports whether it is the last element of a list of which elements are left out.
func IsLeftOut(s []byte) bool { return unitOf(s) == MarkItems }

// unitOf returns how a mark ends, "" or something else if it is none.
func unitOf(s []byte) string {
	n := bytes.LastIndex(s, []byte(MarkBegin))
	if n < 0 {
		return ""
	}
	number := s[n+len(MarkBegin):]
	unit := bytes.TrimLeft(number, "0123456789")
	if len(unit) == len(number) {
		return ""
	}
	return string(unit)
}
