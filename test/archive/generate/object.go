package generate

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// item is a Kubernetes object. What its kind has beside metadata is kept as JSON.
type item struct {
	*stream
	namespace, name, generateName, uid string
	labels, annotations                string // the members of the objects, without braces
	owner                              *item
	version, generation                int
	created, deleting                  time.Time
	gone                               bool
	body                               string // the members before status, such as "spec":{}
	status                             string // the value of status, "" for none

	written []byte // as the last line about it has it; nil before the first
}

// append appends the object's JSON.
func (o *item) append(b []byte) []byte {
	text := func(key, value string) {
		if value != "" {
			b = append(append(append(append(append(b, '"'), key...), `":"`...), value...), `",`...)
		}
	}
	b = append(append(append(append(append(b, `{"kind":"`...), o.Kind...), `","apiVersion":"`...), o.apiVersion...),
		`","metadata":{`...)
	text("name", o.name)
	text("generateName", o.generateName)
	text("namespace", o.namespace)
	text("uid", o.uid)
	b = append(strconv.AppendInt(append(b, `"resourceVersion":"`...), int64(o.version), 10), `",`...)
	if o.generation > 0 {
		b = append(strconv.AppendInt(append(b, `"generation":`...), int64(o.generation), 10), ',')
	}
	b = append(o.created.AppendFormat(append(b, `"creationTimestamp":"`...), time.RFC3339), '"')
	if !o.deleting.IsZero() {
		b = append(o.deleting.AppendFormat(append(b, `,"deletionTimestamp":"`...), time.RFC3339),
			`","deletionGracePeriodSeconds":30`...)
	}
	if o.labels != "" {
		b = append(append(append(b, `,"labels":{`...), o.labels...), '}')
	}
	if o.annotations != "" {
		b = append(append(append(b, `,"annotations":{`...), o.annotations...), '}')
	}
	if p := o.owner; p != nil {
		b = fmt.Appendf(b, `,"ownerReferences":[{"apiVersion":"%s","kind":"%s","name":"%s","uid":"%s",`+
			`"controller":true,"blockOwnerDeletion":true}]`,
			p.apiVersion, p.Kind, p.name, p.uid)
	}
	b = append(b, '}')
	if o.body != "" {
		b = append(append(b, ','), o.body...)
	}
	if o.status != "" {
		b = append(append(b, `,"status":`...), o.status...)
	}
	return append(b, '}')
}

// newObject makes an object that nobody has seen yet.
func (w *world) newObject(resource, namespace, name string) *item {
	return &item{stream: w.of[resource], namespace: namespace, name: name, uid: w.uid()}
}

func (w *world) hex(bytes int) string {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(w.Uint32())
	}
	return hex.EncodeToString(b)
}

func (w *world) uid() string {
	h := w.hex(16)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

// suffix is what the API server puts after a generated name.
func (w *world) suffix(n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[w.IntN(len(letters))]
	}
	return string(b)
}

var words = strings.Fields(
	`account address alert audit auth batch billing broker cache cart catalog checkout claim cluster config consumer
	control cron customer data delivery device directory document driver email engine event export feed file filter
	forecast frontend fulfil gateway geo graph identity image import index ingest inventory invoice job key ledger
	limit link listing loader locale log mail media merge message metric mobile model notify object offer order partner
	payment photo policy portal price producer profile promo proxy query queue quota rank rate recommend region relay
	render report request resource review route rule scan schedule score search secret sender session settle ship
	signal site sms source stock store stream subscription supply support sync tariff task tax team tenant ticket token
	tracker trade transfer upload user vault vendor video voucher wallet warehouse web webhook worker zone`)

func (w *world) word() string { return words[w.IntN(len(words))] }

// second is a time as the API has it.
func second(t time.Time) string { return t.UTC().Format(time.RFC3339) }
