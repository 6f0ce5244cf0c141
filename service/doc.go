// Package service computes how Services work on one host: virtual IPs, endpoints, the table of
// forwarded ports, and names. It is pure: the records of Services and facts about pods are
// arguments.
package service
