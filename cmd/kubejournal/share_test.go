package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

var askedOfADay = flag.Int("share.questions", 400, "how many questions are asked about each day")

// aDay is a journal of the last 24 hours: six streams in which something is written every minute or two.
type aDay struct {
	journal *journaltest.Journal
	streams []*journaltest.Stream
	path    string
	r       *rand.Rand
	uids    map[string]int // by stream and object: the last one that was given
	live    map[string]string
}

var dayKinds = [][2]string{
	{"deployments.apps", "Deployment"}, {"configmaps", "ConfigMap"}, {"pods", "Pod"},
	{"services", "Service"}, {"secrets", "Secret"}, {"jobs.batch", "Job"},
}

var dayNamespaces, dayNames = []string{"shop", "pay"}, []string{"web", "api", "db", "cache", "mail"}

func newDay(t *testing.T, begin time.Time) *aDay {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	d := &aDay{journal: journaltest.New(t, path, begin), path: path, r: rand.New(rand.NewPCG(1, 2)), uids: map[string]int{}, live: map[string]string{}}
	for _, kind := range dayKinds {
		d.streams = append(d.streams, d.journal.Stream(kind[0], kind[1]))
	}
	for _, s := range d.streams {
		s.Snapshot()
	}
	for n := range d.streams {
		for _, namespace := range dayNamespaces {
			for _, name := range dayNames {
				d.put(n, namespace, name, "")
			}
		}
	}
	for _, s := range d.streams {
		s.Synced()
	}
	return d
}

// put writes an object, which is made again if it is not there.
func (d *aDay) put(stream int, namespace, name, writer string) {
	k := dayKinds[stream][0] + "/" + namespace + "/" + name
	if d.live[k] == "" {
		d.uids[k]++
		d.live[k] = fmt.Sprintf("%x%x%x%02x", stream+1, strings.IndexByte("sp", namespace[0]), strings.IndexByte("wadcm", name[0]), d.uids[k])
	}
	d.streams[stream].Put(writer, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q},"spec":{"replicas":%d},"data":{"n":"%d"}}`,
		namespace, name, d.live[k], d.r.IntN(9), d.r.Int()))
}

// change makes one random change.
func (d *aDay) change() {
	stream, namespace, name := d.r.IntN(len(d.streams)), dayNamespaces[d.r.IntN(2)], dayNames[d.r.IntN(len(dayNames))]
	k := dayKinds[stream][0] + "/" + namespace + "/" + name
	if d.live[k] != "" && d.r.IntN(6) == 0 {
		d.streams[stream].Delete(d.live[k])
		d.live[k] = ""
		return
	}
	d.put(stream, namespace, name, []string{"kubectl-edit", "helm", "argocd"}[d.r.IntN(3)])
}

// follow lets the time pass, with a change every 90 seconds on average.
func (d *aDay) follow(until time.Time) {
	for d.journal.Now.Before(until) {
		d.journal.Now = d.journal.Now.Add(time.Duration(1+d.r.IntN(180)) * time.Second)
		if !d.journal.Now.Before(until) {
			d.journal.Now = until
			break
		}
		d.change()
		d.journal.Confirm(false, d.streams...)
	}
	d.journal.Confirm(false, d.streams...)
}

// question returns a question of docs/find-out.md about a random time of the day.
func (d *aDay) question(r *rand.Rand, begin time.Time) []string {
	kind, name := strings.SplitN(dayKinds[r.IntN(len(dayKinds))][0], ".", 2)[0], dayNames[r.IntN(len(dayNames))]
	one, wide := kind+"/"+name, []string{kind, "deploy,cm", "deploy,cm,secrets,jobs", "*"}[r.IntN(4)]
	long := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour}[r.IntN(4)]
	from := begin.Add(time.Minute + time.Duration(r.Int64N(int64(23*time.Hour-long))))
	at, since, until := "--at="+from.Format(time.RFC3339), "--since="+from.Format(time.RFC3339), "--until="+from.Add(long).Format(time.RFC3339)
	n := "-n=" + dayNamespaces[r.IntN(2)]
	switch ago := "--since=" + long.String(); r.IntN(15) {
	case 0:
		return []string{"history", wide, n, since, until}
	case 1:
		return []string{"history", one, n, since, until, "-p"}
	case 2:
		return []string{"history", one, n}
	case 3:
		return []string{"history", wide, n, ago}
	case 4:
		return []string{"history", one, n, "--field=spec.replicas", until}
	case 5:
		return []string{"get", wide, n, at}
	case 6:
		return []string{"get", one, n, at, "-o=yaml"}
	case 7:
		return []string{"get", one, n}
	case 8:
		return []string{"get", wide, n, "--deleted", since, until}
	case 9:
		return []string{"diff", wide, n, since, until}
	case 10:
		return []string{"diff", one, n, ago}
	case 11:
		return []string{"blame", one, n}
	case 12:
		return []string{"blame", one, n, at}
	case 13:
		return []string{"history", one, n, "--related", since, until}
	default:
		return []string{"get", wide, at} // of all namespaces
	}
}

// A day without an outage leaves no question in doubt, and one with an outage few.
func TestShareOfDoubts(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	clearEnv(t)
	t.Setenv("PAGER", "")
	const outage = 10 * time.Minute
	for _, tt := range []struct {
		name string
		gaps int // how many streams have a GAP after the outage
		kill bool
		most int // percent
	}{
		{name: "healthy"},
		{name: "one outage, without a GAP", kill: true, most: 3},
		{name: "one outage, half of the streams with a GAP", kill: true, gaps: 3, most: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now().Add(-24 * time.Hour)
			d := newDay(t, begin)
			j := d.journal
			d.follow(begin.Add(9 * time.Hour))
			if tt.kill {
				down := j.Now
				j.Kill()
				j.Now = down.Add(outage)
				j.Start()
				for made := down; made.Before(j.Now.Add(-time.Minute)); made = made.Add(2 * time.Minute) {
					j.Made = made.Add(time.Minute)
					d.put(tt.gaps+d.r.IntN(len(d.streams)-tt.gaps), "shop", dayNames[d.r.IntN(len(dayNames))], "helm")
				}
				j.Made = time.Time{}
				for _, s := range d.streams[:tt.gaps] {
					s.Gap(line.Expired, down)
					s.Synced()
				}
				j.Confirm(true, d.streams...)
				j.Now = j.Now.Add(5 * time.Second)
			}
			d.follow(begin.Add(24 * time.Hour))
			confirmNow(t, j, d.path, d.streams...) // waits until all of it is written
			r, doubts := rand.New(rand.NewPCG(3, 4)), 0
			kinds := map[string]int{}
			for range *askedOfADay {
				question := d.question(r, begin)
				for again := true; again; again = time.Since(j.Now) > 8*time.Second { // a slow machine took too long
					if time.Since(j.Now) > 4*time.Second {
						confirmNow(t, j, d.path, d.streams...)
					}
					status, stdout, stderr := execute(t, append(question, "--journal", d.path)...)
					if time.Since(j.Now) > 8*time.Second {
						continue
					}
					switch status {
					case 0, exitFault: // of diff: they differ; of a name: it never was
					case exitNotCovered:
						doubts++
						kinds[question[0]]++
						if tt.most == 0 {
							t.Errorf("%v: status %d\n%s%s", question, status, stdout, stderr)
						}
					default:
						t.Fatalf("%v: status %d\n%s%s", question, status, stdout, stderr)
					}
				}
			}
			t.Logf("%d of %d questions are in doubt: %v", doubts, *askedOfADay, kinds)
			if 100*doubts > tt.most**askedOfADay || tt.gaps > 0 && doubts == 0 {
				t.Errorf("%d questions are in doubt, at most %d %% may be", doubts, tt.most)
			}
		})
	}
}
