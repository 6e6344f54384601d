package hitherto

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "hitherto.com/go/hitherto/v1"
)

// export is what the tests transfer; its last piece is short.
var export = bytes.Repeat([]byte("x"), 1<<20+8)

func (s *scripted) ImportUser(stream grpc.ClientStreamingServer[pb.ImportUserRequest, pb.ImportUserResponse]) error {
	failure := s.next(stream.Context())
	var sent []*pb.ImportUserRequest
	defer func() { s.imported = append(s.imported, sent) }()
	for {
		request, err := stream.Recv()
		if err != nil && s.ended != nil {
			s.ended <- err
		}
		if err == io.EOF {
			return stream.SendAndClose(&pb.ImportUserResponse{ConsistencyToken: "after-the-import"})
		}
		if err != nil {
			return err
		}
		sent = append(sent, request)
		if failure != nil {
			return failure
		}
	}
}

func (s *scripted) ExportUser(request *pb.ExportUserRequest, stream grpc.ServerStreamingServer[pb.ExportUserResponse]) error {
	s.exports = append(s.exports, request)
	if err := s.next(stream.Context()); err != nil {
		return err
	}
	for _, reply := range s.exported {
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
	return nil
}

func TestAnImportThatBreaksOffBeginsAgainWithItsKey(t *testing.T) {
	s := &scripted{errors: []error{
		status.Error(codes.Unavailable, "gone"), failing(codes.Unavailable, "DATABASE_UNAVAILABLE", time.Millisecond),
	}}
	client := start(t, s)
	var told int64
	// The import begins where the reader stands.
	file := bytes.NewReader(append([]byte("before"), export...))
	file.Seek(6, io.SeekStart)
	_, err := client.ImportUser(t.Context(), "ana", file, func(o *Transfer) { o.Progress = func(n int64) { told = n } })
	if err != nil || told != int64(len(export)) || len(s.imported) != 3 {
		t.Fatalf("%d bytes in %d calls, %v", told, len(s.imported), err)
	}
	var data []byte
	keys := map[string]bool{}
	for i, stream := range s.imported {
		for _, piece := range stream {
			keys[piece.GetIdempotencyKey()] = true
			if piece.GetUserId() != "ana" || len(piece.GetData()) > 256<<10 {
				t.Errorf("a piece of %d bytes for %q", len(piece.GetData()), piece.GetUserId())
			}
			if i == 2 {
				data = append(data, piece.GetData()...)
			}
		}
	}
	if !bytes.Equal(data, export) || len(keys) != 1 || keys[""] {
		t.Errorf("%d bytes came, with the keys %v", len(data), keys)
	}
	// Reads of the user include what was imported.
	if _, err := client.GetContext(t.Context(), "ana", "x"); err != nil || s.read[0].GetConsistencyToken() != "after-the-import" {
		t.Errorf("%v, %v", err, s.read)
	}
}

func TestAServiceThatTookAPieceIsWaitedFor(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	s := &scripted{errors: []error{gone, gone, gone, gone, gone, gone}}
	if _, err := start(t, s).ImportUser(t.Context(), "ana", bytes.NewReader(export)); err != nil || len(s.imported) != 7 {
		t.Fatalf("%d calls, %v", len(s.imported), err)
	}
	once := &scripted{errors: []error{gone}}
	client := start(t, once, WithRetry(RetryPolicy{Attempts: 1}))
	if _, err := client.ImportUser(t.Context(), "ana", bytes.NewReader(export)); err == nil || len(once.imported) != 1 {
		t.Fatalf("%d calls, %v", len(once.imported), err)
	}
}

func TestAnImportEndsWithWhatIsFinal(t *testing.T) {
	gone := status.Error(codes.Unavailable, "gone")
	final := failing(codes.FailedPrecondition, "USER_NOT_EMPTY", 0)
	for name, test := range map[string]struct {
		failures []error
		export   io.Reader
		code     codes.Code
		calls    int
	}{
		"a final error":    {[]error{final}, strings.NewReader(""), codes.FailedPrecondition, 1},
		"not to be reread": {[]error{gone}, io.MultiReader(bytes.NewReader(export)), codes.Unavailable, 1},
	} {
		s := &scripted{errors: test.failures}
		_, err := start(t, s).ImportUser(t.Context(), "ana", test.export, func(o *Transfer) { o.IdempotencyKey = "mine" })
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != test.code || len(s.imported) != test.calls {
			t.Errorf("%s: %d calls, %v", name, len(s.imported), err)
		}
		if sent := s.imported[0]; len(sent) != 1 || sent[0].GetIdempotencyKey() != "mine" {
			t.Errorf("%s: %v", name, len(sent))
		}
	}
}

func TestAnImportThatCannotBeReadIsNotTakenForWhole(t *testing.T) {
	s := &scripted{ended: make(chan error, 9)}
	client := start(t, s)
	for _, cause := range []error{io.ErrUnexpectedEOF, io.ErrClosedPipe} {
		reader := io.MultiReader(bytes.NewReader(export), iotest.ErrReader(cause))
		if reply, err := client.ImportUser(t.Context(), "ana", reader); !errors.Is(err, cause) || reply != nil {
			t.Errorf("%v, %v", reply, err)
		}
		if err := <-s.ended; status.Code(err) != codes.Canceled {
			t.Errorf("the service was told %v", err)
		}
	}
	var failed *Error
	if _, err := client.ImportUser(t.Context(), "\xff", strings.NewReader("x")); !errors.As(err, &failed) {
		t.Errorf("a name that cannot be sent: %v", err)
	}
}

func TestAnExportThatIsNotWhatWasSentIsRefused(t *testing.T) {
	digest := sha256.Sum256(export)
	piece := func(data []byte) *pb.ExportUserResponse {
		return &pb.ExportUserResponse{Part: &pb.ExportUserResponse_Data{Data: data}}
	}
	data, other := piece(export), piece(make([]byte, len(export)))
	end := &pb.ExportUserResponse{Part: &pb.ExportUserResponse_Manifest{Manifest: &pb.ExportManifest{
		TotalBytes: int64(len(export)), Sha256: hex.EncodeToString(digest[:]),
	}}}
	s := &scripted{exported: []*pb.ExportUserResponse{data, end}}
	client := start(t, s)
	if _, err := client.SaveMemory(t.Context(), "ana", "x"); err != nil {
		t.Fatal(err)
	}
	// The services may have another secret by now than when they made the token.
	s.errors = []error{failing(codes.InvalidArgument, "INVALID_CONSISTENCY_TOKEN", 0)}
	var into bytes.Buffer
	var told int64
	manifest, err := client.ExportUser(t.Context(), "ana", &into, func(o *Transfer) { o.Progress = func(n int64) { told = n } })
	if err != nil || manifest.GetTotalBytes() != told || !bytes.Equal(into.Bytes(), export) {
		t.Fatalf("%d bytes, %v, %v", told, manifest, err)
	}
	if s.exports[0].GetConsistencyToken() != "after-the-write" || s.exports[1].GetConsistencyToken() != "" {
		t.Error(s.exports)
	}
	for _, wrong := range [][]*pb.ExportUserResponse{nil, {data}, {end}, {data, data, end}, {other, end}} {
		s.exported = wrong
		if manifest, err := client.ExportUser(t.Context(), "ana", io.Discard); status.Code(err) != codes.DataLoss || manifest != nil {
			t.Errorf("%v, %v", manifest, err)
		}
	}
}

func TestATransferHasAnHour(t *testing.T) {
	for timeout, most := range map[time.Duration]time.Duration{0: time.Hour, 20 * time.Minute: 20 * time.Minute} {
		s := &scripted{}
		client := start(t, s, WithTimeout(timeout))
		if _, err := client.ImportUser(t.Context(), "ana", bytes.NewReader(export)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.ExportUser(t.Context(), "ana", io.Discard); status.Code(err) != codes.DataLoss {
			t.Fatal(err)
		}
		for _, deadline := range s.deadlines {
			if left := time.Until(deadline); left > most || left < most-10*time.Minute {
				t.Errorf("with %v, %v are left", timeout, left)
			}
		}
	}
}

func TestAFullDiskEndsAnExport(t *testing.T) {
	piece := &pb.ExportUserResponse{Part: &pb.ExportUserResponse_Data{Data: export}}
	s := &scripted{exported: []*pb.ExportUserResponse{piece, piece}}
	reader, full := io.Pipe()
	cause := errors.New("no space left")
	reader.CloseWithError(cause)
	if manifest, err := start(t, s).ExportUser(t.Context(), "ana", full); !errors.Is(err, cause) || manifest != nil {
		t.Errorf("%v, %v", manifest, err)
	}
}
