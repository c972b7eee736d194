package checkpoint

import "hash/crc32"

// The file carries one sum over everything in it, since bbolt has none for its
// pages of data: it is committed with what it covers, and Open adds everything up
// again. It is a sum modulo 2^64 of one number per entry, so that a commit needs
// only the entries that it changes, and costs a known object no byte. That number
// is derived from a CRC-32 of bucket, key and value: of one damaged entry every
// flipped byte shows; of any other damage (entries lost, a page that is an older
// one of itself) all but one case in 2^32.

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// bucketCRC begins the numbers of a bucket's entries: for a bucket at the top by
// its name, for one of a stream by the name of the bucket above it and the stream.
func bucketCRC(name, stream []byte) uint32 {
	crc := crc32.Update(0, crcTable, name)
	crc = crc32.Update(crc, crcTable, []byte{0})
	return crc32.Update(crc, crcTable, stream)
}

// entrySum is the number of one entry. The lengths say where the key ends; the
// mixing (that of splitmix64, one to one) separates what a CRC alone would not: it
// is linear, and two entries that swap their values would cancel out.
func entrySum(bucket uint32, key, value []byte) uint64 {
	crc := crc32.Update(crc32.Update(bucket, crcTable, key), crcTable, value)
	x := uint64(crc) | uint64(len(key))<<32 ^ uint64(len(value))<<48
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
