package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kubejournal/test/program"
)

// journalFlag names the journal, which the demo's config does not.
const journalFlag = " --journal journal.jsonl"

// ask runs kubejournal with a question, and wants a status of these.
func (d *demo) ask(ctx context.Context, args string, stdout io.Writer, want ...int) error {
	cmd := exec.CommandContext(ctx, d.daemon.program, strings.Fields(args)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.daemon.dir, stdout, d.out.w
	cmd.Env = program.Environ(d.daemon.dir, "TERM=dumb", "PAGER=cat")
	status, err := 0, cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		status, err = ended.ExitCode(), nil
	}
	for _, s := range want {
		if err == nil && s == status {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("kubejournal %s: exit status %d", args, status))
}

// questions are asked of the journal, about what was done so far.
func (d *demo) questions(ctx context.Context) error {
	d.steps++
	d.out.title(d.steps, "What happened to the deployment, and who set what in the config map?")
	// Status 3 says that a stream has not been confirmed since its last line, and nobody waits for that here.
	for _, args := range []string{"history deployment/web -n " + shop, "blame configmap/web-settings -n " + shop} {
		args += journalFlag
		d.out.ask(args)
		if err := d.ask(ctx, args, d.out.w, 0, 3); err != nil {
			return err
		}
	}
	return nil
}

// giveBack is the step that restores what the one before has deleted, as far as the journal has it.
func (d *demo) giveBack(since time.Time) step {
	args := fmt.Sprintf("get configmaps,secrets -n %s --deleted --clean --since %s", shop,
		since.Format(time.RFC3339)) + journalFlag
	return step{
		title: "What was deleted is given back, but for the Secret, whose value is not in the journal",
		do: func(ctx context.Context) error {
			d.out.ask(args + " | kubectl apply -f -")
			var list bytes.Buffer
			if err := d.ask(ctx, args, &list, 1); err != nil {
				return err
			}
			fmt.Fprintf(d.out.w, "%s", &list)
			return apply(ctx, d.client, list.Bytes())
		},
		want: []string{"ADDED watch configmaps shop/web-settings kubectl-client-side-apply data.theme=light"},
	}
}

// apply makes the config maps of a List, under the name of kubectl apply: they are not there.
func apply(ctx context.Context, client dynamic.Interface, text []byte) error {
	var list struct{ Items []unstructured.Unstructured }
	if err := yaml.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	for i := range list.Items {
		_, err := client.Resource(configMaps).Namespace(shop).Create(ctx, &list.Items[i],
			metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		if err != nil {
			return err
		}
	}
	return nil
}
