package question

import (
	"context"
	"strings"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
)

// One returns the one object that is selected at a moment: the one that was there, else the one that was deleted last. There
// is none where nothing of the name was there up to then.
func (j *Journal) One(ctx context.Context, s *argument.Selection, at argument.Moment) (*Item, []Doubt, error) {
	st, err := archive.Again(j.Journal, func() (*State, error) { return j.state(ctx, s, at, true) })
	if err != nil {
		return nil, nil, err
	}
	var one *Item
	places := make(map[string]bool)
	for i := range st.Items {
		item := &st.Items[i]
		places[strings.Join([]string{item.Stream.Resource, item.Namespace, item.Name}, " ")] = true
		if one == nil || one.Deleted && !item.Deleted || one.Deleted == item.Deleted && one.Last.Seq < item.Last.Seq {
			one = item
		}
	}
	if len(places) > 1 {
		var names []string
		for _, item := range st.Items {
			names = append(names, item.Namespace+"/"+item.Name)
		}
		return nil, nil, argument.Unknownf("several objects have that name: %s; name its namespace with -n", argument.Some(names))
	}
	return one, st.Doubts, nil
}
