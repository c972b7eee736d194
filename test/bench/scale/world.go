package main

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
)

// world is what the server holds: ConfigMaps, each made from its number. They have their keys, uids and contents from
// the number alone, so that a server that is started again holds the same ones.
//
// In the second generation half a percent has changed, two in a thousand are gone and three in a thousand are new: new
// ones have the name of the number with a suffix, so that they stand in the order of keys after the other.
type world struct {
	objects    int // numbers of the first generation, from 0
	namespace  int // objects of a namespace
	generation int // 1 or 2
	size       int // of an object in a watch, in bytes
}

const (
	gone     = 500  // of so many numbers one is gone in generation 2
	changed  = 200  // of so many one has changed
	newOnes  = 3    // new ones ...
	newAmong = 1000 // ... among so many
	// firstVersion is that of the first object's creation; there are as many versions as objects in generation 1, and
	// in generation 2 as many again.
	firstVersion = 1000
	versionStep  = 7919 // prime: versions are not in the order of keys
)

// version is that of the whole: no object's is later.
func (w world) version() uint64 { return firstVersion + uint64(w.generation*w.objects) }

// oldest is the version of the first event that there is history of: in generation 2, none of the first one.
func (w world) oldest() uint64 { return firstVersion + uint64((w.generation-1)*w.objects) + 2 }

// object is one object: a number, and whether it is the new one beside that.
type object struct {
	number int
	fresh  bool
}

// at returns the objects of a number, in the order of keys; there are none, one or two.
func (w world) at(number int) (objects [2]object, n int) {
	if w.generation == 1 || number%gone != 1 {
		objects[n] = object{number: number}
		n++
	}
	if w.generation == 2 && w.hasFresh(number) {
		objects[n] = object{number: number, fresh: true}
		n++
	}
	return objects, n
}

func (w world) hasFresh(number int) bool { return number%newAmong >= 2 && number%newAmong < 2+newOnes }

// versionOf is an object's own version. All differ.
func (w world) versionOf(o object) uint64 {
	v := firstVersion + uint64(o.number*versionStep%w.objects) + 1
	if o.fresh || w.generation == 2 && o.number%changed == 0 {
		v += uint64(w.objects)
	}
	return v
}

func (w world) namespaceOf(number int) string { return "ns-" + digits(number/w.namespace, 5) }

func (o object) name() string {
	name := "cm-" + digits(o.number, 7)
	if o.fresh {
		name += "-new"
	}
	return name
}

// digits writes n with at least width digits: names in the order of numbers.
func digits(n, width int) string {
	s := strconv.Itoa(n)
	for len(s) < width {
		s = "0" + s
	}
	return s
}

// uid is random in its looks, and the same each time.
func (o object) uid() string {
	seed := uint64(o.number) << 1
	if o.fresh {
		seed++
	}
	var b [16]byte
	source := rand.NewPCG(seed, 1)
	binary.BigEndian.PutUint64(b[:8], source.Uint64())
	binary.BigEndian.PutUint64(b[8:], source.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// text is what contents are cut from: words, so that they compress as configuration does.
var text = func() []byte {
	words := []string{"server", "listen", "upstream", "timeout", "true", "false", "log", "level", "info",
		"cache", "max-size", "retry", "interval", "host", "port", "path", "default", "enabled", "10.0.0.1", "443",
		"60s", "/var/lib/data", "cluster.local"}
	random := rand.New(rand.NewPCG(1, 1))
	var b []byte
	for len(b) < 512<<10 {
		b = append(b, words[random.IntN(len(words))]...)
		b = append(b, "=: ,-"[random.IntN(5)])
		b = strconv.AppendUint(b, random.Uint64N(10000), 10)
		b = append(b, ' ')
	}
	return b
}()

// append writes an object as JSON, with or without the kind, which the items of a list go without. version stands in
// place of its own where it is not 0.
func (w world) append(dst []byte, o object, kind bool, version uint64, size int) []byte {
	start := len(dst)
	if kind {
		dst = append(dst, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"`...)
	} else {
		dst = append(dst, `{"metadata":{"name":"`...)
	}
	dst = append(dst, o.name()...)
	dst = append(dst, `","namespace":"`...)
	dst = append(dst, w.namespaceOf(o.number)...)
	dst = append(dst, `","uid":"`...)
	dst = append(dst, o.uid()...)
	dst = append(dst, `","resourceVersion":"`...)
	if version == 0 {
		version = w.versionOf(o)
	}
	dst = strconv.AppendUint(dst, version, 10)
	dst = append(dst, `","creationTimestamp":"2026-11-20T16:10:22Z","labels":{"app":"scale","shard":"`...)
	dst = strconv.AppendInt(dst, int64(o.number%64), 10)
	dst = append(dst, `"},"managedFields":[{"manager":"scale","operation":"Update","apiVersion":"v1",`+
		`"time":"2026-11-20T16:10:22Z",`...)
	dst = append(dst, `"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:config":{}},"f:metadata":{"f:labels":{`+
		`".":{},"f:app":{}}}}}]},"data":{"config":"`...)
	room := max(0, size-(len(dst)-start)-len(`"}}`))
	for at := o.number * 1021 % len(text); room > 0; at = 0 {
		n := min(room, len(text)-at)
		dst = append(dst, text[at:at+n]...)
		room -= n
	}
	return append(dst, `"}}`...)
}
