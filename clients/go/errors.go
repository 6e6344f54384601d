package hitherto

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// domain is that of every ErrorInfo that the services themselves give.
const domain = "hitherto"

// ownLimit stands in gRPC's own refusal of a message that is too large, which has no details.
const (
	ownLimit = "larger than max"
	tooLarge = Reason("REQUEST_TOO_LARGE")
)

// Reason is why a call failed: a value of the contract's ErrorReason without its prefix, such as "USER_ERASED".
//
//	if errors.Is(err, hitherto.Reason("USER_ERASED")) { … }
type Reason string

// Error returns the reason itself.
func (r Reason) Error() string { return string(r) }

// Violation is one invalid field of a request.
type Violation struct {
	// Field is its path in the request, such as transcripts[3].messages[0].content.
	Field string
	// Description says what is wrong with it and what would be right.
	Description string
}

// Error is how a call failed for good, after retries where these could help. Find it with errors.As.
type Error struct {
	Code codes.Code
	// Message has the service's own words, or gRPC's where the call did not reach it.
	Message string
	// Reason is empty if the error did not come from the services.
	Reason Reason
	// Metadata says what the reason is about; see the example at each ErrorReason.
	Metadata   map[string]string
	Violations []Violation
	// RetryAfter is the time after which the service suggests another try; nil if it suggests none.
	RetryAfter *time.Duration
	// Service is the one that was called, retrieval or extraction, at Address.
	Service, Address string
	// RequestID is the x-request-id under which the service logged the call.
	RequestID string

	status *status.Status
}

// Error returns the code, the reason, the message and the invalid fields.
func (e *Error) Error() string {
	lines := []string{strings.TrimSpace(fmt.Sprintf("%s %s", e.Code, e.Reason)) + ": " + e.Message}
	for _, violation := range e.Violations {
		// The message names the first one.
		if named := violation.Field + ": " + violation.Description; !strings.Contains(e.Message, named) {
			lines = append(lines, named)
		}
	}
	// What has no id is no failed call: a service that answered has ended a stream.
	if e.Code == codes.Unavailable && e.Reason == "" && e.RequestID != "" {
		lines = append(lines, fmt.Sprintf("The %s service cannot be reached at %s: start it with `hitherto up`, or check "+
			"HITHERTO_%s_ADDRESS and, for TLS, HITHERTO_TLS_CA_FILE", e.Service, e.Address, strings.ToUpper(e.Service)))
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is the Reason of this error.
func (e *Error) Is(target error) bool {
	reason, ok := target.(Reason)
	return ok && reason != "" && reason == e.Reason
}

// Unwrap returns context.Canceled or context.DeadlineExceeded if one of these ended the call.
func (e *Error) Unwrap() error {
	switch e.Code {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	return nil
}

// GRPCStatus returns the status, so that status.FromError and status.Code work.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// readError returns the typed error behind a failed call.
func (e endpoint) readError(err error, requestID string) *Error {
	told := status.Convert(err)
	read := &Error{
		Code: told.Code(), Message: told.Message(), Service: e.service, Address: e.address,
		RequestID: requestID, status: told,
	}
	if told.Code() == codes.ResourceExhausted && strings.Contains(told.Message(), ownLimit) {
		read.Reason = tooLarge
	}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == domain {
				read.Reason, read.Metadata = Reason(detail.GetReason()), detail.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				read.Violations = append(read.Violations, Violation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			delay := max(0, detail.GetRetryDelay().AsDuration())
			read.RetryAfter = &delay
		}
	}
	return read
}
