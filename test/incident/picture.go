package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kubejournal/test/program"
)

// outage is how old the outage is when it is looked at.
const outage = 15 * time.Second

// look keeps what kubejournal says of itself in the middle of an outage: by its command, and on its page.
func (x *incident) look(ctx context.Context) error {
	began := x.ledger.Outages[len(x.ledger.Outages)-1].From
	err := x.daemon.Wait(ctx, patience, "every stream has noticed", func() error {
		streams, err := x.daemon.Streams(ctx)
		for _, s := range streams {
			if s.State == program.Watching {
				return errors.New(s.Stream + " watches")
			}
		}
		if err == nil && time.Since(began) < outage {
			err = errors.New("the outage is too young")
		}
		return err
	})
	if err != nil {
		return err
	}
	address, err := x.daemon.Address()
	if err != nil {
		return err
	}
	if err := x.onTerminal("status.txt", "status --address "+address, 0); err != nil {
		return err
	}
	page, err := x.daemon.Page(ctx, "/")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(x.out, "page.html"), []byte(page), 0o600); err != nil {
		return err
	}
	chromium, _ := exec.LookPath("chromium")
	if chromium == "" {
		fmt.Fprintln(os.Stderr, "incident: no picture of the page without chromium")
		return nil
	}
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+filepath.Join(x.work, "chromium"), "--window-size=1280,1010",
		"--screenshot="+filepath.Join(x.out, "page.png"), "http://"+address+"/")
	cmd.Env = program.Environ(x.work)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("chromium: %w\n%s", err, out)
	}
	return nil
}

// onTerminal runs kubejournal on a terminal of 100 columns, which script makes, and keeps what it shows there, below a
// prompt.
func (x *incident) onTerminal(file, args string, status int) error {
	cmd := exec.Command("script", "--quiet", "--return", "--command", `stty cols 100 && exec "$KUBEJOURNAL" `+args,
		"/dev/null")
	cmd.Dir, cmd.Env = x.out,
		program.Environ(x.work, "KUBEJOURNAL="+x.program, "NO_COLOR=1", "TZ=UTC", "TERM=xterm", "PAGER=cat")
	shown, err := cmd.CombinedOutput()
	got, err := statusOf(err)
	if err == nil && !isStatus(got, status) {
		err = fmt.Errorf("exit status %d, not %d", got, status)
	}
	if err != nil {
		return fmt.Errorf("kubejournal %s on a terminal: %w\n%s", args, err, shown)
	}
	text := fmt.Sprintf("$ kubejournal %s\n%s", args, bytes.ReplaceAll(shown, []byte("\r"), nil))
	if got != 0 {
		text += fmt.Sprintf("# exit status %d\n", got)
	}
	return x.keep(file, text)
}
