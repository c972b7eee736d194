package rows

import (
	"strings"

	"kubejournal/internal/format/line"
)

// User returns the user who made a line, as an audit log has it; "" where that is not known.
func User(l *line.Fields) string {
	user, as := l.Person()
	if as != "" {
		user += " as " + as
	}
	return user
}

// Person returns the same where that tells more than the manager does: of a part of Kubernetes itself the manager says
// in short who it is.
func Person(l *line.Fields) string {
	user, as := l.Person()
	switch {
	case as != "":
		return user + " as " + as
	case !strings.HasPrefix(user, "system:"):
		return user
	case l.Type() != line.Deleted && (len(l.Text(line.FieldManager)) > 0 || len(l.Value(line.FieldEvent)) > 0):
		return ""
	}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return strings.Replace(account, ":", "/", 1)
	}
	return strings.TrimPrefix(user, "system:")
}
