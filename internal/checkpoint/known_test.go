package checkpoint

import (
	"bytes"
	"errors"
	"testing"

	"kubejournal/internal/format/object"
)

// FuzzDecodeKnown: any bytes are an object or ErrDamaged, and what is an object
// comes back the same.
func FuzzDecodeKnown(f *testing.F) {
	f.Add([]byte("ns\x00name"), appendKnown(nil, 0, []byte(uuid(1)), []byte("123")))
	f.Add([]byte("ns\x00name"), appendKnown(nil, 0, []byte("x"), []byte("007")))
	f.Add([]byte("\x00"), []byte{flagVersionText | flagUIDText, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte("no"), []byte{})
	for _, flags := range []byte{flagDoubtful, flagWithheld, flagDoubtful | flagWithheld} {
		f.Add([]byte("ns\x00name"), appendKnown(nil, flags, []byte(uuid(1)), []byte("123")))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var k, again object.Known
		if err := decodeKnown(key, value, &k); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("decodeKnown = %v", err)
			}
			return
		}
		if got := appendKey(nil, k.Namespace, k.Name); !bytes.Equal(got, key) {
			t.Fatalf("key %q came back as %q", key, got)
		}
		encoded := appendKnown(nil, value[0]&(flagDoubtful|flagWithheld), []byte(k.UID), []byte(k.ResourceVersion))
		if err := decodeKnown(key, encoded, &again); err != nil || again != k {
			t.Fatalf("%+v came back as %+v, %v", k, again, err)
		}
	})
}

// FuzzKnownRoundTrip: what is put in comes out, whatever it is.
func FuzzKnownRoundTrip(f *testing.F) {
	for _, s := range oddities {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, uid, rv string) {
		want := object.Known{Namespace: "n", Name: "o", UID: uid, ResourceVersion: rv}
		var got object.Known
		if err := decodeKnown(appendKey(nil, "n", "o"), appendKnown(nil, 0, []byte(uid), []byte(rv)), &got); err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
	})
}
