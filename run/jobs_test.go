package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// TestWaitJobOfAnotherUID checks that a wait for a Job does not wait for another Job of the same name.
func TestWaitJobOfAnotherUID(t *testing.T) {
	for goal, deleted := range map[lifecycle.Goal]bool{lifecycle.GoalDeleted: true, lifecycle.GoalCompleted: false} {
		synctest.Test(t, func(t *testing.T) { waitJobOfAnotherUID(t, goal, deleted) })
	}
}

func waitJobOfAnotherUID(t *testing.T, goal lifecycle.Goal, deleted bool) {
	e := &node.Node{}
	e.Settings = nodeconfig.Settings{RootDir: t.TempDir()}
	write := func(uid types.UID) {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: uid}}
		if err := store.WriteJob(e.Layout(), &store.JobRecord{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	replaced := time.AfterFunc(2*jobPoll, func() { write("second") })
	defer replaced.Stop()
	found, err := WaitJob(ctx, e, "default", "j", goal)
	var failed *problem.Error
	isFailed := errors.As(err, &failed) && failed.Kind == problem.Failed
	if !found || deleted && err != nil || !deleted && !isFailed {
		t.Errorf("goal %v: found %t, %v", goal, found, err)
	}
}
