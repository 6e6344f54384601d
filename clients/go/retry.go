package hitherto

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	// modelTimeout is the default of PreviewExtraction, which asks a language model.
	modelTimeout = 75 * time.Second
)

// RetryPolicy says when failed calls are made again, always within the deadline of the call.
//
// An error with RetryInfo is repeated until the deadline, after the time that the service names. One without, as
// when a connection breaks, is repeated Attempts times at most, and only if the call reads or carries an
// idempotency key. An error in which the service gives a reason and no RetryInfo is final.
type RetryPolicy struct {
	// Attempts is how often a call is made at most, the first time included; 1 switches retries off.
	Attempts int
	// FirstWait is the time before the second attempt; it doubles for each one after that.
	FirstWait time.Duration
	// LongestWait is what the wait grows to at most; RetryInfo may name a longer one.
	LongestWait time.Duration
}

// DefaultRetryPolicy returns the policy of a client that is given none.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Attempts: 4, FirstWait: 200 * time.Millisecond, LongestWait: 5 * time.Second}
}

// withoutEnd returns the same with as many attempts as the deadline allows, unless retries are off.
func (p RetryPolicy) withoutEnd() RetryPolicy {
	if p.Attempts > 1 {
		p.Attempts = math.MaxInt
	}
	return p
}

// wait returns the time before the next attempt, and whether there should be one, after so many failures.
func (p RetryPolicy) wait(failed *Error, failures int, repeatable bool) (time.Duration, bool) {
	switch failed.Code {
	case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
	case codes.Canceled:
		// gRPC itself drops a call that reaches a process which has just begun to stop. If the caller cancelled, the
		// wait before the next attempt ends at once.
	default:
		return 0, false
	}
	if p.Attempts <= 1 {
		return 0, false
	}
	backoff := float64(p.FirstWait) * float64(uint64(1)<<min(failures-1, 30))
	// Clients that failed together should not come back together.
	wait := time.Duration(min(backoff, float64(p.LongestWait)) * (0.75 + rand.Float64()/2))
	if failed.RetryAfter != nil {
		return max(*failed.RetryAfter, wait), true
	}
	return wait, failed.Reason == "" && repeatable && failures < p.Attempts
}

func defaultTimeout(method string, reads bool) time.Duration {
	switch {
	case strings.HasSuffix(method, "/PreviewExtraction"):
		return modelTimeout
	case reads:
		return readTimeout
	}
	return writeTimeout
}

// changesNothing reports whether the contract declares the RPC at this path free of side effects.
func changesNothing(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return false
	}
	options, ok := found.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// text returns the string field of this name, and whether the message has one.
func text(message any, name protoreflect.Name) (string, bool) {
	m, ok := message.(proto.Message)
	if !ok {
		return "", false
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName(name)
	if field == nil || field.Kind() != protoreflect.StringKind {
		return "", false
	}
	return m.ProtoReflect().Get(field).String(), true
}

func setText(message proto.Message, name protoreflect.Name, value string) {
	m := message.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(value))
}

// withIdempotencyKey returns the request with a new key if it has a field for one and none is set. It is a copy:
// the caller may send the same request again and mean a new call.
func withIdempotencyKey(request any) any {
	key, has := text(request, "idempotency_key")
	if !has || key != "" {
		return request
	}
	keyed := proto.Clone(request.(proto.Message))
	setText(keyed, "idempotency_key", newID())
	return keyed
}
