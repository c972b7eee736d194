package daemon

import (
	"context"
	"net/url"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"kubejournal/internal/kube/client"
)

// A proxy between the daemon and its own cluster is a warning, one on the way to another cluster is not.
func TestLogProxy(t *testing.T) {
	for cluster, want := range map[string]zapcore.Level{
		"": zap.InfoLevel, "10.96.0.1": zap.WarnLevel, "fd00::1": zap.InfoLevel,
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", cluster)
		core, logged := observer.New(zapcore.InfoLevel)
		d := &Daemon{Options: Options{Log: zap.New(core)}}
		var err error
		config := &rest.Config{Host: "https://10.96.0.1:443"}
		d.access, err = client.NewAccess(func() (*rest.Config, error) { return config, nil },
			func(context.Context, *client.Client, bool) error { return nil }, d.Log)
		if err != nil {
			t.Fatal(err)
		}
		d.logProxy(&url.URL{Scheme: "http", Host: "proxy:3128", User: url.UserPassword("user", "pa55w0rd")})
		all := logged.All()
		if len(all) != 1 || all[0].Level != want || all[0].ContextMap()["proxy"] != "http://xxxxx@proxy:3128" {
			t.Errorf("in %q: %v", cluster, all)
		}
	}
}
