package fieldpath

import (
	"bytes"
	"strings"
)

// PointerSteps returns the keys that a JSON Pointer has, none for the empty one.
func PointerSteps(pointer string) []string {
	keys := strings.Split(pointer, "/")[1:]
	for i, key := range keys {
		keys[i] = string(Unescaped([]byte(key)))
	}
	return keys
}

// Escaped returns a key as a step of a JSON Pointer has it.
func Escaped(key []byte) []byte {
	if !bytes.ContainsAny(key, "~/") {
		return key
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(key, []byte("~"), []byte("~0")), []byte("/"), []byte("~1"))
}

// Unescaped returns the key that a step of a JSON Pointer has.
func Unescaped(step []byte) []byte {
	if bytes.IndexByte(step, '~') < 0 {
		return step
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(step, []byte("~1"), []byte("/")), []byte("~0"), []byte("~"))
}
