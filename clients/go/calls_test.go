package hitherto

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "hitherto.com/go/hitherto/v1"
)

// scripted is a server whose calls end as a test says: one error after the other, then well.
type scripted struct {
	pb.UnimplementedMemoryServiceServer
	pb.UnimplementedRetrievalServiceServer
	pb.UnimplementedExtractionServiceServer
	pb.UnimplementedPrivacyServiceServer

	lock    sync.Mutex
	errors  []error
	hang    bool
	watched [][]pb.JobState
	saved   []*pb.SaveMemoryRequest
	read    []*pb.GetContextRequest
	// The requests of each stream of ImportUser, and what ExportUser tells.
	imported [][]*pb.ImportUserRequest
	exported []*pb.ExportUserResponse
	exports  []*pb.ExportUserRequest
	// ended, if there is one, gets how each stream of ImportUser ended.
	ended     chan error
	deadlines []time.Time
	metadata  []metadata.MD
	at        []time.Time
	// called, if there is one, gets an item for each call.
	called chan struct{}
}

func (s *scripted) next(ctx context.Context) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	given, _ := metadata.FromIncomingContext(ctx)
	s.metadata = append(s.metadata, given)
	s.at = append(s.at, time.Now())
	deadline, _ := ctx.Deadline()
	s.deadlines = append(s.deadlines, deadline)
	if s.called != nil {
		s.called <- struct{}{}
	}
	if s.hang {
		s.lock.Unlock()
		<-ctx.Done()
		s.lock.Lock()
		return ctx.Err()
	}
	if len(s.errors) == 0 {
		return nil
	}
	err := s.errors[0]
	s.errors = s.errors[1:]
	return err
}

func (s *scripted) SaveMemory(ctx context.Context, request *pb.SaveMemoryRequest) (*pb.SaveMemoryResponse, error) {
	s.saved = append(s.saved, request)
	return &pb.SaveMemoryResponse{
		Memory: &pb.Memory{Id: "m1", Content: request.GetContent()}, ConsistencyToken: "after-the-write",
	}, s.next(ctx)
}

func (s *scripted) GetContext(ctx context.Context, request *pb.GetContextRequest) (*pb.GetContextResponse, error) {
	s.read = append(s.read, request)
	return &pb.GetContextResponse{PromptBlock: request.GetQuery()}, s.next(ctx)
}

func (s *scripted) WatchJob(request *pb.WatchJobRequest, stream grpc.ServerStreamingServer[pb.WatchJobResponse]) error {
	if err := s.next(stream.Context()); err != nil {
		return err
	}
	states := s.watched[0]
	s.watched = s.watched[1:]
	for _, state := range states {
		job := &pb.Job{Id: request.GetJobId(), UserId: "ana", State: state}
		if final(job) {
			job.ConsistencyToken = "after-the-job"
		}
		if err := stream.Send(&pb.WatchJobResponse{Job: job}); err != nil {
			return err
		}
	}
	return nil
}

// start serves s, and returns a client of it that is given nothing by the environment.
func start(t *testing.T, s *scripted, options ...Option) *Client {
	t.Helper()
	for _, name := range []string{"API_KEY", "TOKEN", "TLS_CA_FILE", "TLS_CLIENT_CERTIFICATE_FILE", "TLS_CLIENT_KEY_FILE"} {
		t.Setenv("HITHERTO_"+name, "")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMemoryServiceServer(server, s)
	pb.RegisterRetrievalServiceServer(server, s)
	pb.RegisterExtractionServiceServer(server, s)
	pb.RegisterPrivacyServiceServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	t.Setenv("HITHERTO_RETRIEVAL_ADDRESS", listener.Addr().String())
	t.Setenv("HITHERTO_EXTRACTION_ADDRESS", listener.Addr().String())
	fast := WithRetry(RetryPolicy{Attempts: 4, FirstWait: time.Millisecond, LongestWait: 10 * time.Millisecond})
	client, err := New(append([]Option{fast}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func failing(code codes.Code, reason string, delay time.Duration) error {
	return failingOf("hitherto", code, reason, delay)
}

func failingOf(domain string, code codes.Code, reason string, delay time.Duration) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: domain, Reason: reason, Metadata: map[string]string{"limit": "9"}}}
	if delay > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	made, err := status.New(code, "as scripted").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return made.Err()
}

func TestAWriteIsRepeatedWithItsKey(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	s := &scripted{errors: []error{gone, gone, gone}}
	client := start(t, s)
	if _, err := client.SaveMemory(t.Context(), "ana", "Ana lives in Porto."); err != nil {
		t.Fatal(err)
	}
	keys, ids := map[string]bool{}, map[string]bool{}
	for i, request := range s.saved {
		keys[request.GetIdempotencyKey()] = true
		ids[s.metadata[i].Get("x-request-id")[0]] = true
	}
	if len(s.saved) != 4 || len(keys) != 1 || keys[""] || len(ids) != 1 {
		t.Errorf("%d calls with the keys %v and the ids %v", len(s.saved), keys, ids)
	}
	// A second call is another one.
	if _, err := client.SaveMemory(t.Context(), "ana", "Ana lives in Porto."); err != nil {
		t.Fatal(err)
	}
	if keys[s.saved[4].GetIdempotencyKey()] {
		t.Error("two calls share a key")
	}
}

func TestAGivenKeyIsKept(t *testing.T) {
	s := &scripted{}
	_, err := start(t, s).SaveMemory(t.Context(), "ana", "x", func(r *pb.SaveMemoryRequest) { r.IdempotencyKey = "mine" })
	if err != nil || s.saved[0].GetIdempotencyKey() != "mine" {
		t.Errorf("%v, %v", err, s.saved)
	}
}

func TestAttemptsEnd(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	s := &scripted{errors: []error{gone, gone, gone, gone, gone}}
	_, err := start(t, s).SaveMemory(t.Context(), "ana", "x")
	if status.Code(err) != codes.Unavailable || len(s.saved) != 4 {
		t.Errorf("%d calls, %v", len(s.saved), err)
	}
}

func TestOnlyAServiceThatIsNotReachedIsToStart(t *testing.T) {
	const told = "The extraction service cannot be reached at 127.0.0.1:1: start it with `hitherto up`, or check " +
		"HITHERTO_EXTRACTION_ADDRESS and, for TLS, HITHERTO_TLS_CA_FILE"
	once := WithRetry(RetryPolicy{Attempts: 1})
	s := &scripted{
		errors:  []error{failing(codes.Unavailable, "DATABASE_UNAVAILABLE", 0), nil},
		watched: [][]pb.JobState{{}},
	}
	if _, err := start(t, s, once, WithExtraction("127.0.0.1:1")).SaveMemory(t.Context(), "ana", "x"); !strings.Contains(err.Error(), told) {
		t.Error(err)
	}
	client := start(t, s, once)
	_, reason := client.SaveMemory(t.Context(), "ana", "x")
	_, ended := client.Jobs.Wait(t.Context(), "job-1")
	client.Close()
	_, closed := client.SaveMemory(t.Context(), "ana", "x")
	for _, err := range []error{reason, ended, closed} {
		if err == nil || strings.Contains(err.Error(), "cannot be reached") {
			t.Error(err)
		}
	}
	if status.Code(ended) != codes.Unavailable {
		t.Error(ended)
	}
}

func TestRetryInfoIsObeyed(t *testing.T) {
	const delay = 150 * time.Millisecond
	s := &scripted{}
	for range 5 {
		s.errors = append(s.errors, failing(codes.ResourceExhausted, "RATE_LIMITED", delay))
	}
	if _, err := start(t, s).GetContext(t.Context(), "ana", "x"); err != nil {
		t.Fatal(err)
	}
	if len(s.at) != 6 {
		t.Fatalf("%d calls", len(s.at))
	}
	for i := range 5 {
		if waited := s.at[i+1].Sub(s.at[i]); waited < delay {
			t.Errorf("attempt %d came after %v", i+2, waited)
		}
	}
}

func TestAWaitThatExceedsTheDeadlineIsNotBegun(t *testing.T) {
	s := &scripted{errors: []error{failing(codes.ResourceExhausted, "RATE_LIMITED", time.Hour)}}
	_, err := start(t, s).GetContext(t.Context(), "ana", "x")
	var failed *Error
	if !errors.As(err, &failed) || failed.RetryAfter == nil || *failed.RetryAfter != time.Hour || len(s.at) != 1 {
		t.Fatalf("%d calls, %v", len(s.at), err)
	}
	if failed.Metadata["limit"] != "9" || failed.Service != "retrieval" || failed.RequestID == "" {
		t.Errorf("%+v", failed)
	}
}

func TestTextThatIsNotUnicodeIsNamedAndNotSent(t *testing.T) {
	half := "half \xed\xa0\xbd here"
	server := &scripted{}
	client, ctx := start(t, server), t.Context()
	for field, call := range map[string]func() error{
		"content": func() error {
			_, err := client.SaveMemory(ctx, "ana", half)
			return err
		},
		"tags[1]": func() error {
			_, err := client.SaveMemory(ctx, "ana", "x", func(r *pb.SaveMemoryRequest) { r.Tags = []string{"a", half} })
			return err
		},
		"metadata": func() error {
			free := &structpb.Struct{Fields: map[string]*structpb.Value{half: structpb.NewBoolValue(true)}}
			_, err := client.SaveMemory(ctx, "ana", "x", func(r *pb.SaveMemoryRequest) { r.Metadata = free })
			return err
		},
		"query": func() error {
			_, err := client.GetContext(ctx, "ana", half)
			return err
		},
	} {
		var failed *Error
		if err := call(); !errors.As(err, &failed) || failed.Code != codes.InvalidArgument {
			t.Errorf("%s: %v", field, err)
		} else if len(failed.Violations) != 1 || failed.Violations[0].Field != field {
			t.Errorf("%s: %v", field, failed.Violations)
		}
	}
	if len(server.at) != 0 {
		t.Errorf("%d calls were sent", len(server.at))
	}
}

func TestAReasonWithoutRetryInfoIsFinal(t *testing.T) {
	s := &scripted{errors: []error{failing(codes.Aborted, "VERSION_MISMATCH", 0)}}
	_, err := start(t, s).SaveMemory(t.Context(), "ana", "x")
	if !errors.Is(err, Reason("VERSION_MISMATCH")) || errors.Is(err, Reason("OTHER")) || len(s.saved) != 1 {
		t.Errorf("%d calls, %v", len(s.saved), err)
	}
}

func TestAnErrorOfSomebodyElseHasNoReason(t *testing.T) {
	s := &scripted{errors: []error{failingOf("proxy.example", codes.Unavailable, "NO_UPSTREAM", 0)}}
	client := start(t, s, WithRetry(RetryPolicy{Attempts: 1}))
	_, err := client.GetContext(t.Context(), "ana", "x")
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != "" || failed.Message != "as scripted" {
		t.Errorf("%+v", err)
	}
}

func TestAGivenRequestIDIsKept(t *testing.T) {
	s := &scripted{errors: []error{failing(codes.Aborted, "VERSION_MISMATCH", 0)}}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "mine")
	_, err := start(t, s).SaveMemory(ctx, "ana", "x")
	var failed *Error
	if ids := s.metadata[0].Get("x-request-id"); len(ids) != 1 || ids[0] != "mine" {
		t.Error(ids)
	}
	if !errors.As(err, &failed) || failed.RequestID != "mine" {
		t.Error(err)
	}
}

func TestADeadlineEndsTheCall(t *testing.T) {
	s := &scripted{hang: true}
	client := start(t, s, WithTimeout(200*time.Millisecond))
	_, err := client.GetContext(t.Context(), "ana", "x")
	if !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the client's: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.SaveMemory(ctx, "ana", "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context's: %v", err)
	}
}

func TestACallCanBeCancelledWhileItWaits(t *testing.T) {
	s := &scripted{errors: []error{failing(codes.ResourceExhausted, "RATE_LIMITED", 50*time.Second)}, called: make(chan struct{}, 9)}
	client := start(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() {
		<-s.called
		cancel()
	}()
	begun := time.Now()
	if _, err := client.SaveMemory(ctx, "ana", "x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if waited := time.Since(begun); waited > 40*time.Second {
		t.Errorf("it ended after %v", waited)
	}
}

func TestReadsIncludeOwnWrites(t *testing.T) {
	s := &scripted{}
	client := start(t, s)
	if _, err := client.SaveMemory(t.Context(), "ana", "x"); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ana", "rui"} {
		if _, err := client.GetContext(t.Context(), user, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if sent := s.read[0].GetConsistencyToken() + "|" + s.read[1].GetConsistencyToken(); sent != "after-the-write|" {
		t.Error(sent)
	}
}

func TestARefusedTokenIsDropped(t *testing.T) {
	s := &scripted{}
	client := start(t, s)
	if _, err := client.SaveMemory(t.Context(), "ana", "x"); err != nil {
		t.Fatal(err)
	}
	s.errors = []error{failing(codes.InvalidArgument, "INVALID_CONSISTENCY_TOKEN", 0)}
	for range 2 {
		if _, err := client.GetContext(t.Context(), "ana", "x"); err != nil {
			t.Fatal(err)
		}
	}
	var sent []string
	for _, request := range s.read {
		sent = append(sent, request.GetConsistencyToken())
	}
	if strings.Join(sent, "|") != "after-the-write||" {
		t.Error(sent)
	}
}

func TestAWatchGoesOnAcrossBrokenStreams(t *testing.T) {
	s := &scripted{
		errors:  []error{nil, status.Error(codes.Unavailable, "gone")},
		watched: [][]pb.JobState{{1, 2}, {2, 3}},
	}
	client := start(t, s)
	var states []pb.JobState
	for job, err := range client.Jobs.Watch(t.Context(), "job-1") {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, job.GetState())
	}
	if len(states) != 3 || states[2] != pb.JobState_JOB_STATE_SUCCEEDED {
		t.Error(states)
	}
	if _, err := client.GetContext(t.Context(), "ana", "x"); err != nil || s.read[0].GetConsistencyToken() != "after-the-job" {
		t.Errorf("%v, %v", err, s.read)
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	s := &scripted{hang: true}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if job, err := start(t, s).Jobs.Wait(ctx, "job-1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", job, err)
	}
}

// unready closes its first connections at once, as the address of a service that is being restarted.
type unready struct {
	net.Listener
	refuses int
}

func (u *unready) Accept() (net.Conn, error) {
	for {
		conn, err := u.Listener.Accept()
		if err != nil || u.refuses == 0 {
			return conn, err
		}
		u.refuses--
		conn.Close()
	}
}

func TestAServiceThatIsBeingRestartedIsAwaited(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{}
	server := grpc.NewServer()
	pb.RegisterMemoryServiceServer(server, s)
	go server.Serve(&unready{listener, 3})
	defer server.Stop()
	client := start(t, s, WithExtraction(listener.Addr().String()), WithRetry(RetryPolicy{
		Attempts: 1000, FirstWait: 50 * time.Millisecond, LongestWait: 100 * time.Millisecond,
	}))
	if _, err := client.SaveMemory(t.Context(), "ana", "x"); err != nil {
		t.Fatal(err)
	}
}

func TestTheCredentialIsAskedForAtEachCall(t *testing.T) {
	s := &scripted{}
	tokens := []string{"first", "second"}
	client := start(t, s, WithTokenSource(func(context.Context) (string, error) {
		token := tokens[0]
		tokens = tokens[1:]
		return token, nil
	}))
	for range 2 {
		if _, err := client.GetContext(t.Context(), "ana", "x"); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"Bearer first", "Bearer second"} {
		if got := s.metadata[i].Get("authorization"); len(got) != 1 || got[0] != want {
			t.Error(got)
		}
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	start(t, &scripted{})
	for name, options := range map[string][]Option{
		"key and token":     {WithAPIKey("k"), WithToken("t")},
		"characters":        {WithAPIKey("kéy")},
		"no authority":      {WithClientCertificate("c.pem", "k.pem")},
		"no key":            {WithTLS("ca.pem"), WithClientCertificate("c.pem", "")},
		"no such authority": {WithTLS("missing.pem")},
		"a web address":     {WithRetrieval("http://127.0.0.1:50051")},
	} {
		if _, err := New(options...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	client, err := New(WithToken("two words"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.GetContext(t.Context(), "ana", "x"); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
}
