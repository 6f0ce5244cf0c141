package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/kubernetes/pkg/util/parsers"
)

// Timetable is the parsed schedule of a CronJob.
type Timetable struct {
	cron.Schedule
	// Location is the time zone of the CronJob; time.Local if the CronJob specifies none.
	Location *time.Location
}

// Parse parses the schedule and the time zone of a CronJob. It reads the host's time zones or, if
// the host has none, those in the binary. As in the controller, a time zone in the schedule
// (TZ=Europe/Berlin 0 3 * * *) takes precedence over spec.timeZone.
func Parse(c *batchv1.CronJob) (Timetable, error) {
	t := Timetable{Location: time.Local}
	text := c.Spec.Schedule
	if zone := c.Spec.TimeZone; zone != nil {
		location, err := time.LoadLocation(*zone)
		if err != nil {
			return t, fmt.Errorf("spec.timeZone %q: %w", *zone, err)
		}
		t.Location = location
		if !strings.Contains(text, "TZ") {
			text = "TZ=" + *zone + " " + text
		}
	}
	var err error
	if t.Schedule, err = parsers.ParseCronScheduleWithPanicRecovery(text); err != nil {
		return t, fmt.Errorf("spec.schedule %q: %w", c.Spec.Schedule, err)
	}
	return t, nil
}
