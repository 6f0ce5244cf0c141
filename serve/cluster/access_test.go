package cluster

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podrun/podrun/serve/nodeapi"
)

// TestAccess checks the requests about clients of the HTTPS API, and how long the answers are used.
func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var asked []authorizationv1.SubjectAccessReviewSpec
		var down error
		client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			asked = append(asked, review.Spec)
			review.Status.Allowed = review.Spec.User == "apiserver"
			return true, review, down
		})
		access := newAccess(typed{client}, nodeA)
		want := func(when string, r nodeapi.Access, allowed bool, requests int) {
			t.Helper()
			if err := access.check(t.Context(), r); (err == nil) != allowed {
				t.Errorf("%s, %s: %v, want allowed %v", when, r.User, err, allowed)
			}
			if len(asked) != requests {
				t.Errorf("%s, %s: %d requests so far, want %d", when, r.User, len(asked), requests)
			}
		}
		server := nodeapi.Access{User: "apiserver", Groups: []string{"masters"}, Verb: "get", Subresource: "log"}
		other := server
		other.User = "system:node:other"
		want("at first", server, true, 1)
		want("at first", other, false, 2)
		if got := asked[0]; got.User != "apiserver" || fmt.Sprint(got.Groups) != "[system:authenticated masters]" || *got.ResourceAttributes != (authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: "nodes", Subresource: "log", Name: nodeA}) {
			t.Errorf("request %+v, %+v", got, got.ResourceAttributes)
		}
		want("again", server, true, 2)
		want("again", other, false, 2)
		exec := server
		exec.Verb, exec.Subresource = "create", "proxy"
		want("another request", exec, true, 3)
		time.Sleep(deniedFor + time.Second)
		want("after 31 s", server, true, 3)
		want("after 31 s", other, false, 4)
		down = errors.New("connection refused")
		want("while the API server is down", server, true, 4)
		time.Sleep(allowedFor)
		want("while the API server is down", server, false, 5)
		down = nil
		want("when it is back", server, true, 6)
	})
}

// TestManyAnswers checks that the number of answers is limited, and that the newest are kept.
func TestManyAnswers(t *testing.T) {
	client := fake.NewClientset()
	asked := 0
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		return true, a.(clienttesting.CreateAction).GetObject(), nil
	})
	access := newAccess(typed{client}, nodeA)
	for i := range maxAnswers + 10 {
		if access.check(t.Context(), nodeapi.Access{User: fmt.Sprint(i), Verb: "get"}) == nil {
			t.Fatal("a client was allowed")
		}
	}
	if n := len(access.answers.Keys()); n > maxAnswers {
		t.Errorf("%d answers are kept, want at most %d", n, maxAnswers)
	}
	before := asked
	if access.check(t.Context(), nodeapi.Access{User: fmt.Sprint(maxAnswers + 9), Verb: "get"}) == nil || asked != before {
		t.Error("the newest answer is not used")
	}
}
