// Package bench holds what `make bench` measures beside the benchmarks of the
// packages themselves.
//
//	canned    an API server in a process of its own that sends events made beforehand
//	baseline  what one would write by hand: raw copy, informer, reflector
//	daemon    the real program as a whole process, beside the baselines: CPU with a
//	          real API server over TLS, and the time from received to written
//	scale     a million objects, hundreds of streams, blocked output
//	rotate    compressing and indexing a rotated file, beside compress/gzip alone
//	ask       questions to a journal, a process each, beside jq, grep and DuckDB on its files
//	table     all the lines that these print -> one table, judged by the goals
//
// Every measurement prints lines as `go test -bench` does, so that benchstat
// reads them too: BenchmarkName/key=value/way=... N value unit value unit.
package bench
