package status

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestCheckProfile(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:6060": true, "[::1]:6060": true, "localhost:0": true, "127.1.2.3:1": true,
		":6060": false, "0.0.0.0:6060": false, "10.0.0.1:6060": false, "[::]:6060": false, "example.com:6060": false,
		"6060": false, "": false, "127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:70000": false,
	} {
		if err := CheckProfile(addr); (err == nil) != ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestProfileHandler(t *testing.T) {
	server, err := Listen("127.0.0.1:0", ProfileHandler())
	if err != nil {
		t.Fatal(err)
	}
	server.Serve(zap.NewNop(), "serving profiles")
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/heap?debug=1":      "heap profile:",
	} {
		resp, err := client.Get("http://" + server.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v\n%.200s", path, resp.StatusCode, err, body)
		}
	}
}
