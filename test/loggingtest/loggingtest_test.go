package loggingtest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

type runs func() int

func (r runs) Run() int { return r() }

func TestHold(t *testing.T) {
	for _, code := range []int{0, 1} {
		var out bytes.Buffer
		h := &held{out: &out, tests: runs(func() int {
			for range 2000 {
				klog.ErrorS(errors.New("reset"), "Unexpected error when reading response body")
			}
			return code
		})}
		if got := h.Run(); got != code {
			t.Errorf("exit status %d, want %d", got, code)
		}
		switch text := out.String(); {
		case code == 0 && text != "":
			t.Errorf("the log of tests that passed is shown: %.200s", text)
		case code != 0 && (!strings.Contains(text, `"Unexpected error when reading response body" err="reset"`) || len(text) > maxHeld+100):
			t.Errorf("%d bytes are shown of tests that failed: %.200s", len(text), text)
		}
	}
}
