package hitherto

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// mostBytes is what a reply may have: a page of 1,000 long memories is larger than gRPC's default of 4 MiB.
const mostBytes = 64 << 20

// endpoint is one service, with what every call to it gets: a deadline, the credential, ids, and safe retries.
type endpoint struct {
	service, address string
	credential       TokenSource
	timeout          time.Duration
	retry            RetryPolicy
}

func (e endpoint) dial(transport credentials.TransportCredentials) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("hitherto-go/" + Version),
		grpc.WithUnaryInterceptor(e.unary),
		grpc.WithStreamInterceptor(e.stream),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostBytes)),
		// By default a connection waits up to two minutes before it looks for a restarted service.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if isLoopback(e.address) {
		// An HTTP proxy of the environment is meant for the outside world.
		options = append(options, grpc.WithNoProxy())
	}
	return grpc.NewClient(e.address, options...)
}

func (e endpoint) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	reads := changesNothing(method)
	if !reads {
		request = withIdempotencyKey(request)
	}
	key, _ := text(request, "idempotency_key")
	ctx, requestID, err := e.complete(ctx)
	if err != nil {
		return err
	}
	if err := e.checkText(request, requestID); err != nil {
		return err
	}
	ctx, cancel := e.limited(ctx, defaultTimeout(method, reads))
	defer cancel()
	for failures := 1; ; failures++ {
		err := invoke(ctx, method, request, reply, conn, options...)
		if err == nil {
			return nil
		}
		if err := e.pause(ctx, e.readError(err, requestID), failures, reads || key != ""); err != nil {
			return err
		}
	}
}

// checkText returns an error that names the first text of a request that is not UTF-8. gRPC would call it Internal.
func (e endpoint) checkText(request any, requestID string) error {
	message, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	var field string
	err := protorange.Range(message.ProtoReflect(), func(at protopath.Values) error {
		last := at.Index(-1)
		value, isText := last.Value.Interface().(string)
		if last.Step.Kind() == protopath.MapIndexStep && !utf8.ValidString(last.Step.MapIndex().String()) {
			value, isText = last.Step.MapIndex().String(), true
		}
		if !isText || utf8.ValidString(value) {
			return nil
		}
		field = pathOf(at.Path)
		return protorange.Terminate
	})
	if err != nil || field == "" {
		return err
	}
	const told = "should be text of valid UTF-8"
	failed := e.readError(status.Error(codes.InvalidArgument, field+": "+told), requestID)
	failed.Violations = []Violation{{Field: field, Description: told}}
	return failed
}

// pathOf returns a place in a request as the services name it; what is inside free JSON has the name of its field.
func pathOf(steps protopath.Path) string {
	var path strings.Builder
	for _, step := range steps {
		switch step.Kind() {
		case protopath.FieldAccessStep:
			if step.FieldDescriptor().ContainingMessage().FullName() == "google.protobuf.Struct" {
				return path.String()
			}
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			path.WriteString(string(step.FieldDescriptor().Name()))
		case protopath.ListIndexStep:
			fmt.Fprintf(&path, "[%d]", step.ListIndex())
		}
	}
	return path.String()
}

// limited returns the context with a deadline: its own, else WithTimeout, else the default.
func (e endpoint) limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	if e.timeout != 0 {
		timeout = e.timeout
	}
	return context.WithTimeout(ctx, timeout)
}

// pause waits before the next attempt of a call. It returns the call's error if there should be none.
func (e endpoint) pause(ctx context.Context, failed *Error, failures int, repeatable bool) error {
	wait, again := e.retry.wait(failed, failures, repeatable)
	if deadline, has := ctx.Deadline(); !again || has && !time.Now().Add(wait).Before(deadline) {
		return failed
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return e.readError(status.FromContextError(ctx.Err()).Err(), failed.RequestID)
	}
}

func (e endpoint) stream(
	ctx context.Context, description *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, requestID, err := e.complete(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := open(ctx, description, conn, method, options...)
	if err != nil {
		return nil, e.readError(err, requestID)
	}
	return &typedStream{opened, e, requestID}, nil
}

// typedStream is a stream that ends with *Error.
type typedStream struct {
	grpc.ClientStream
	endpoint  endpoint
	requestID string
}

// RecvMsg receives the next message; io.EOF says that there is none.
func (s *typedStream) RecvMsg(message any) error {
	return s.typed(s.ClientStream.RecvMsg(message))
}

// SendMsg sends a message; after io.EOF, RecvMsg says why the stream ended.
func (s *typedStream) SendMsg(message any) error {
	return s.typed(s.ClientStream.SendMsg(message))
}

func (s *typedStream) typed(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return s.endpoint.readError(err, s.requestID)
}

// complete returns the context with the metadata that it lacks, and the request id in force.
func (e endpoint) complete(ctx context.Context) (context.Context, string, error) {
	given, _ := metadata.FromOutgoingContext(ctx)
	if e.credential != nil && len(given.Get("authorization")) == 0 {
		credential, err := e.credential(ctx)
		if err != nil {
			return nil, "", err
		}
		if !sendable(credential) {
			return nil, "", status.Error(
				codes.Unauthenticated, "hitherto: the token is empty or holds characters that no token has")
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential)
	}
	if ids := given.Get("x-request-id"); len(ids) > 0 {
		return ctx, ids[0], nil
	}
	requestID := newID()
	return metadata.AppendToOutgoingContext(ctx, "x-request-id", requestID), requestID, nil
}

func newID() string {
	var id [16]byte
	// It never fails: crypto/rand ends the process instead.
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
