// Package servicesync records Services, with their virtual IPs and node ports, and makes the names in hosts files
// and the rules of the network match the Services and the pods. Package service has the rules that it applies.
package servicesync
