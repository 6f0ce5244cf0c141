package inspect

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
)

// topPause is the time between two measurements of `top --watch`.
const topPause = time.Second

// watchUsage measures the usage until ctx ends. On a terminal it shows the usage in a live view.
// Otherwise it prints all pods after each measurement, but the headings only once.
func watchUsage(ctx context.Context, a *cli.App, f *topFlags, node *run.Node, messages *heldMessages, sel lookup.Selector, measure func(context.Context) ([]serve.PodUsage, error)) error {
	repeat := func(ctx context.Context, show func([]serve.PodUsage) error) error {
		for {
			usage, err := measure(ctx)
			if err == nil {
				err = show(usage)
			}
			if err != nil {
				return ended(ctx, err)
			}
			select {
			case <-ctx.Done():
				return ended(ctx, ctx.Err())
			case <-time.After(topPause):
			}
		}
	}
	if canView(a) && !f.noHeaders {
		return liveView(ctx, a, f.sortBy.Value, messages, func(ctx context.Context, show func(viewData)) error {
			return repeat(ctx, func(usage []serve.PodUsage) error {
				data, err := viewOfUsage(ctx, a, f, node, sel, usage)
				if err == nil {
					show(data)
				}
				return err
			})
		})
	}
	first := !f.noHeaders
	return repeat(ctx, func(usage []serve.PodUsage) error {
		if len(usage) == 0 {
			return nil
		}
		view.SortUsage(usage, f.sortBy.Value)
		// Each table is formatted with headings, so that the columns have the same widths in all measurements.
		var table bytes.Buffer
		limits, err := limitsOf(ctx, node, sel)
		if err != nil {
			return err
		}
		if err := limitsTable(usage, limits, f).Print(&table); err != nil {
			return err
		}
		text := table.String()
		if !first && !f.noHeaders {
			_, text, _ = strings.Cut(text, "\n")
		}
		first = false
		_, err = io.WriteString(a.Streams.Out, text)
		return err
	})
}

// viewOfUsage adds the restarts and the last events of the pods to their usage.
func viewOfUsage(ctx context.Context, a *cli.App, f *topFlags, node *run.Node, sel lookup.Selector, usage []serve.PodUsage) (*usageView, error) {
	views, err := lookup.Pods(ctx, node, sel)
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	v := &usageView{usage: usage, pods: map[types.UID]*corev1.Pod{}, flags: f}
	for _, view := range views {
		pods = append(pods, *view.Object)
		v.pods[view.Object.UID] = view.Object
	}
	v.last = lastEvents(node, pods)
	return v, nil
}
