package nodeapi

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// statusHandler routes the requests of clients that may read only metrics and status.
func (s *endpoint) statusHandler() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/healthz":           s.withheld("healthz", live),
		"/readyz":            s.withheld("readyz", func(all []Check) []Check { return all }),
		"/pods":              s.podStatuses,
		"/pods/{$}":          s.podStatuses,
		"/metrics":           s.metrics,
		"/metrics/resource":  s.resource,
		"/stats/summary":     s.summary,
		"/stats/summary/{$}": s.summary,
	} {
		mux.HandleFunc(path, s.bounded(s.answers, false, h))
	}
	mux.HandleFunc("/", s.bounded(s.answers, false, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, "this socket serves only /healthz, /readyz, /pods, /metrics, /metrics/resource and /stats/summary")
	}))
	return mux
}

// withheld responds with the checks, but without the reasons of failures, because reasons may quote
// manifests. In place of a reason, the response contains the text that the API server sends to
// clients that may not see reasons.
func (s *endpoint) withheld(name string, of func([]Check) []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		checks := slices.Clone(of(s.backend.Health()))
		for i := range checks {
			if checks[i].Reason != "" {
				checks[i].Reason = "reason withheld"
			}
			checks[i].Note = ""
		}
		s.health(w, r, name, checks)
	}
}

func (s *endpoint) podStatuses(w http.ResponseWriter, r *http.Request) {
	list, err := s.backend.Pods(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	out := corev1.PodList{TypeMeta: list.TypeMeta, Items: make([]corev1.Pod, 0, len(list.Items))}
	for i := range list.Items {
		out.Items = append(out.Items, statusOf(&list.Items[i]))
	}
	s.answerJSON(w, out)
}
