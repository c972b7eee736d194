package client

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Latest is the version of a list that continues with what is there now, for ContinueAt.
const Latest = "-1"

// FirstKey is before the key of any object, for ContinueAt, LastKey after that of nearly any.
const (
	FirstKey = "\x00"
	LastKey  = "~"
)

// ContinueAt returns a token that continues a list of the version with the first object whose key is not before start.
// A key is the object's namespace, a slash and its name, or its name alone in a list of one namespace or of what has
// none. The form of the token is that of kube-apiserver (k8s.io/apiserver/pkg/storage, continue.go): any other server
// may refuse it, with 400. It is "" for a version that is no number.
func ContinueAt(version, start string) string {
	if version == "" || strings.Trim(version, "-0123456789") != "" {
		return ""
	}
	token, err := json.Marshal(struct {
		APIVersion string      `json:"v"`
		Version    json.Number `json:"rv"`
		Start      string      `json:"start"`
	}{"meta.k8s.io/v1", json.Number(version), start})
	if err != nil {
		return "" // no number either
	}
	return base64.RawURLEncoding.EncodeToString(token)
}
