package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// decision is a part of a CronJobDecision.
type decision struct {
	start   string // the scheduled time of the Job; "" for none
	deletes []string
	warning string // a part of it
	next    string // without the margin; "" if it does not matter
}

// cronCase is one decision about a CronJob that was created at 00:00 UTC on 1 March 2026.
type cronCase struct {
	schedule, zone string
	change         func(*batchv1.CronJob)
	last           string // lastScheduleTime
	active, ended  []string
	deleting       int
	now            string
	want           decision
}

func (c cronCase) input(t *testing.T) CronJobInput {
	o := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "u", CreationTimestamp: metav1.NewTime(at("2026-03-01T00:00:00Z"))},
		Spec: batchv1.CronJobSpec{Schedule: c.schedule, ConcurrencyPolicy: batchv1.AllowConcurrent}}
	o.Spec.TimeZone = ptr.To(c.zone)
	if c.zone == "" {
		o.Spec.TimeZone = ptr.To("Etc/UTC") // the result must not depend on the host
	}
	if c.change != nil {
		c.change(o)
	}
	if c.last != "" {
		o.Status.LastScheduleTime = &metav1.Time{Time: at(c.last)}
	}
	in := CronJobInput{CronJob: o, Deleting: c.deleting, Now: at(c.now)}
	for _, name := range slices.Concat(c.active, c.ended) {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
		if slices.Contains(c.active, name) {
			o.Status.Active = append(o.Status.Active, corev1.ObjectReference{Name: name, UID: j.UID})
		} else {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			j.Status.CompletionTime = &metav1.Time{Time: at("2026-03-01T00:00:01Z")}
		}
		in.Jobs = append(in.Jobs, j)
	}
	var err error
	if in.Timetable, err = Parse(o); err != nil {
		t.Fatal(err)
	}
	return in
}

func runCron(t *testing.T, cases map[string]cronCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := CronJob(c.input(t))
			if err != nil {
				t.Fatal(err)
			}
			start := ""
			if d.Start != nil {
				start = at(d.Start.Annotations[batchv1.CronJobScheduledTimestampAnnotation]).UTC().Format(time.RFC3339)
				if d.Start.Name != JobName(c.input(t).CronJob, at(start)) || !d.Status.LastScheduleTime.Equal(&metav1.Time{Time: at(start)}) {
					t.Errorf("Job %s, last schedule time %s", d.Start.Name, d.Status.LastScheduleTime)
				}
			}
			if start != c.want.start || !slices.Equal(d.Delete, c.want.deletes) || !strings.Contains(d.Warning, c.want.warning) || c.want.warning == "" && d.Warning != "" {
				t.Errorf("start %q, delete %q, warning %q", start, d.Delete, d.Warning)
			}
			if c.want.next != "" && !d.Next.Equal(at(c.want.next).Add(nextScheduleDelta)) {
				t.Errorf("next decision %s, want %s", d.Next.UTC(), c.want.next)
			}
		})
	}
}

// In Berlin, 2026-03-29 02:00 does not exist, and 2026-10-25 02:00 to 03:00 occurs twice: a run in that hour
// takes place twice, as in a cluster.
func TestTimeZones(t *testing.T) {
	runCron(t, map[string]cronCase{
		"UTC, before":                     {schedule: "0 3 * * *", last: "2026-03-01T03:00:00Z", now: "2026-03-02T02:59:59Z", want: decision{next: "2026-03-02T03:00:00Z"}},
		"UTC, at the time":                {schedule: "0 3 * * *", last: "2026-03-01T03:00:00Z", now: "2026-03-02T03:00:00Z", want: decision{start: "2026-03-02T03:00:00Z", next: "2026-03-03T03:00:00Z"}},
		"Berlin, winter":                  {schedule: "0 3 * * *", zone: "Europe/Berlin", last: "2026-03-01T02:00:00Z", now: "2026-03-02T02:00:00Z", want: decision{start: "2026-03-02T02:00:00Z", next: "2026-03-03T02:00:00Z"}},
		"Berlin, summer":                  {schedule: "0 3 * * *", zone: "Europe/Berlin", last: "2026-06-01T01:00:00Z", now: "2026-06-02T01:00:00Z", want: decision{start: "2026-06-02T01:00:00Z", next: "2026-06-03T01:00:00Z"}},
		"Kolkata":                         {schedule: "0 3 * * *", zone: "Asia/Kolkata", last: "2026-06-01T21:30:00Z", now: "2026-06-02T21:30:00Z", want: decision{start: "2026-06-02T21:30:00Z", next: "2026-06-03T21:30:00Z"}},
		"a zone in the text":              {schedule: "TZ=Asia/Tokyo 0 3 * * *", zone: "Europe/Berlin", last: "2026-06-01T18:00:00Z", now: "2026-06-02T18:00:00Z", want: decision{start: "2026-06-02T18:00:00Z"}},
		"the hour that does not exist":    {schedule: "30 2 * * *", zone: "Europe/Berlin", last: "2026-03-28T01:30:00Z", now: "2026-03-29T23:00:00Z", want: decision{next: "2026-03-30T00:30:00Z"}},
		"the hour that occurs twice":      {schedule: "30 2 * * *", zone: "Europe/Berlin", last: "2026-10-24T00:30:00Z", now: "2026-10-25T00:30:00Z", want: decision{start: "2026-10-25T00:30:00Z"}},
		"its second occurrence":           {schedule: "30 2 * * *", zone: "Europe/Berlin", last: "2026-10-25T00:30:00Z", now: "2026-10-25T01:30:00Z", want: decision{start: "2026-10-25T01:30:00Z", next: "2026-10-26T01:30:00Z"}},
		"every hour, also the second one": {schedule: "0 * * * *", zone: "Europe/Berlin", last: "2026-10-25T00:00:00Z", now: "2026-10-25T01:00:00Z", want: decision{start: "2026-10-25T01:00:00Z"}},
	})
}

func TestZoneErrors(t *testing.T) {
	c := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "* * * * *", TimeZone: ptr.To("Nowhere/Land")}}
	if _, err := Parse(c); err == nil || !strings.Contains(err.Error(), `spec.timeZone "Nowhere/Land"`) {
		t.Error(err)
	}
	c.Spec = batchv1.CronJobSpec{Schedule: "61 * * * *"}
	if _, err := Parse(c); err == nil || !strings.Contains(err.Error(), "spec.schedule") {
		t.Error(err)
	}
	c.Spec = batchv1.CronJobSpec{Schedule: "0 0 31 2 *"}
	table, err := Parse(c)
	if err != nil {
		t.Fatal(err)
	}
	c.CreationTimestamp = metav1.NewTime(at("2026-03-01T00:00:00Z"))
	if d, err := CronJob(CronJobInput{CronJob: c, Timetable: table, Now: at("2026-03-02T00:00:00Z")}); err == nil || d.Start != nil {
		t.Errorf("31 February: %+v, %v", d, err)
	}
}

func deadline(seconds int64) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &seconds }
}

// The start of a run may be late: podrun did not run, or the clock has jumped forward.
func TestMissedRuns(t *testing.T) {
	runCron(t, map[string]cronCase{
		"none yet":                    {schedule: "0 * * * *", now: "2026-03-01T00:59:59Z", want: decision{next: "2026-03-01T01:00:00Z"}},
		"the first, after a day":      {schedule: "0 3 * * *", now: "2026-03-01T04:00:00Z", want: decision{start: "2026-03-01T03:00:00Z", next: "2026-03-02T03:00:00Z"}},
		"one":                         {schedule: "0 * * * *", last: "2026-03-01T01:00:00Z", now: "2026-03-01T02:10:00Z", want: decision{start: "2026-03-01T02:00:00Z"}},
		"of several, the latest":      {schedule: "0 * * * *", last: "2026-03-01T01:00:00Z", now: "2026-03-01T09:10:00Z", want: decision{start: "2026-03-01T09:00:00Z", next: "2026-03-01T10:00:00Z"}},
		"exactly a hundred":           {schedule: "* * * * *", last: "2026-03-01T01:00:00Z", now: "2026-03-01T02:40:00Z", want: decision{start: "2026-03-01T02:40:00Z"}},
		"more than a hundred":         {schedule: "* * * * *", last: "2026-03-01T01:00:00Z", now: "2026-03-01T02:41:00Z", want: decision{start: "2026-03-01T02:41:00Z", warning: "more than 100 runs were missed"}},
		"ten years of minutes":        {schedule: "* * * * *", last: "2026-03-01T01:00:00Z", now: "2036-03-01T01:00:30Z", want: decision{start: "2036-03-01T01:00:00Z", warning: "more than 100 runs"}},
		"with irregular intervals":    {schedule: "30 6-16/4 * * 1-5", last: "2026-03-06T14:30:00Z", now: "2026-03-09T05:00:00Z", want: decision{next: "2026-03-09T06:30:00Z"}},
		"after a weekend":             {schedule: "30 6-16/4 * * 1-5", last: "2026-03-06T14:30:00Z", now: "2026-03-09T07:00:00Z", want: decision{start: "2026-03-09T06:30:00Z"}},
		"within the deadline":         {schedule: "0 3 * * *", change: deadline(600), last: "2026-03-01T03:00:00Z", now: "2026-03-02T03:09:59Z", want: decision{start: "2026-03-02T03:00:00Z"}},
		"after the deadline":          {schedule: "0 3 * * *", change: deadline(600), last: "2026-03-01T03:00:00Z", now: "2026-03-02T03:10:00Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"a deadline of many runs":     {schedule: "* * * * *", change: deadline(600), last: "2026-03-01T01:00:00Z", now: "2026-03-02T01:00:30Z", want: decision{start: "2026-03-02T01:00:00Z"}},
		"the last run was just now":   {schedule: "0 3 * * *", last: "2026-03-02T03:00:00Z", now: "2026-03-02T03:00:00Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"a Job of the run exists":     {schedule: "0 3 * * *", last: "2026-03-01T03:00:00Z", ended: []string{"c-29540340"}, now: "2026-03-02T03:00:00Z", want: decision{}},
		"before the CronJob existed":  {schedule: "0 3 * * *", now: "2026-03-01T02:00:00Z", want: decision{next: "2026-03-01T03:00:00Z"}},
		"suspended":                   {schedule: "0 3 * * *", change: func(c *batchv1.CronJob) { c.Spec.Suspend = ptr.To(true) }, now: "2026-03-05T03:00:00Z"},
		"being deleted":               {schedule: "0 3 * * *", change: func(c *batchv1.CronJob) { c.DeletionTimestamp = ptr.To(metav1.Now()) }, now: "2026-03-05T03:00:00Z"},
		"resumed, without a deadline": {schedule: "0 3 * * *", last: "2026-03-01T03:00:00Z", now: "2026-03-05T12:00:00Z", want: decision{start: "2026-03-05T03:00:00Z"}},
		"resumed, with a deadline":    {schedule: "0 3 * * *", change: deadline(60), last: "2026-03-01T03:00:00Z", now: "2026-03-05T12:00:00Z", want: decision{}},
	})
}

// TestClockBack sets the clock back after a run: until the time of the last run has passed again, no run
// starts, so that none starts twice.
func TestClockBack(t *testing.T) {
	const last = "2026-03-02T03:00:00Z"
	runCron(t, map[string]cronCase{
		"by an hour":                 {schedule: "0 3 * * *", last: last, now: "2026-03-02T02:00:00Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"by an hour, at the time":    {schedule: "0 3 * * *", last: last, now: "2026-03-02T03:00:00Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"to before its creation":     {schedule: "0 3 * * *", last: last, now: "1970-01-01T00:00:10Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"and no run before":          {schedule: "0 3 * * *", now: "1970-01-01T00:00:10Z", want: decision{next: "2026-03-01T03:00:00Z"}},
		"with a deadline":            {schedule: "0 3 * * *", change: deadline(60), last: last, now: "2026-03-02T03:00:00Z", want: decision{next: "2026-03-03T03:00:00Z"}},
		"and forward again":          {schedule: "0 3 * * *", last: last, now: "2026-03-03T03:00:00Z", want: decision{start: "2026-03-03T03:00:00Z"}},
		"by a second, in a schedule": {schedule: "* * * * *", last: last, now: "2026-03-02T02:59:59Z", want: decision{next: "2026-03-02T03:01:00Z"}},
	})
}

func TestConcurrencyPolicy(t *testing.T) {
	policy := func(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
		return func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = p }
	}
	many := make([]string, maxActive)
	for i := range many {
		many[i] = JobName(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, time.Unix(int64(60*i), 0))
	}
	const last, now = "2026-03-01T01:00:00Z", "2026-03-01T01:01:00Z"
	runCron(t, map[string]cronCase{
		"Allow":                      {change: policy(batchv1.AllowConcurrent), schedule: "* * * * *", last: last, active: []string{"c-1"}, now: now, want: decision{start: now}},
		"Forbid":                     {change: policy(batchv1.ForbidConcurrent), schedule: "* * * * *", last: last, active: []string{"c-1"}, now: now, want: decision{next: "2026-03-01T01:02:00Z"}},
		"Forbid, when it has ended":  {change: policy(batchv1.ForbidConcurrent), schedule: "* * * * *", last: last, ended: []string{"c-1"}, now: now, want: decision{start: now}},
		"Replace":                    {change: policy(batchv1.ReplaceConcurrent), schedule: "* * * * *", last: last, active: []string{"c-1", "c-2"}, now: now, want: decision{start: now, deletes: []string{"c-1", "c-2"}}},
		"Replace, ended":             {change: policy(batchv1.ReplaceConcurrent), schedule: "* * * * *", last: last, ended: []string{"c-1"}, now: now, want: decision{start: now}},
		"Allow, too many":            {change: policy(batchv1.AllowConcurrent), schedule: "* * * * *", last: last, active: many, now: now, want: decision{warning: "100 Jobs of this CronJob are active"}},
		"Replace, many":              {change: policy(batchv1.ReplaceConcurrent), schedule: "* * * * *", last: last, active: many, now: now, want: decision{start: now, deletes: many}},
		"Replace, many not removed":  {change: policy(batchv1.ReplaceConcurrent), schedule: "* * * * *", last: last, active: []string{"c-1"}, deleting: maxActive, now: now, want: decision{warning: "has not removed the pods of 100 earlier Jobs"}},
		"Replace, fewer not removed": {change: policy(batchv1.ReplaceConcurrent), schedule: "* * * * *", last: last, deleting: maxActive - 1, now: now, want: decision{start: now}},
	})
}

func TestHistoryLimits(t *testing.T) {
	limit := func(n int32) func(*batchv1.CronJob) {
		return func(c *batchv1.CronJob) { c.Spec.SuccessfulJobsHistoryLimit, c.Spec.Suspend = &n, ptr.To(true) }
	}
	ended := []string{"c-1", "c-2", "c-3"}
	runCron(t, map[string]cronCase{
		"none": {schedule: "* * * * *", change: limit(0), ended: ended, now: "2026-03-02T00:00:00Z", want: decision{deletes: ended}},
		"one":  {schedule: "* * * * *", change: limit(1), ended: ended, now: "2026-03-02T00:00:00Z", want: decision{deletes: ended[:2]}},
		"more": {schedule: "* * * * *", change: limit(5), ended: ended, now: "2026-03-02T00:00:00Z"},
	})
}
