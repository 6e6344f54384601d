package hitherto

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "hitherto.com/go/hitherto/v1"
)

const (
	// transferTimeout is the default of an export and of an import, which take as long as there is to send.
	transferTimeout = time.Hour
	pieceBytes      = 256 << 10
)

// Transfer is what an export or an import can be given.
type Transfer struct {
	// Progress, if set, is called after every piece with the bytes so far.
	Progress func(bytes int64)
	// IdempotencyKey is sent with an import; a new one if empty.
	IdempotencyKey string
}

func newTransfer(with []func(*Transfer)) *Transfer {
	transfer := &Transfer{}
	for _, fill := range with {
		fill(transfer)
	}
	if transfer.Progress == nil {
		transfer.Progress = func(int64) {}
	}
	if transfer.IdempotencyKey == "" {
		transfer.IdempotencyKey = newID()
	}
	return transfer
}

// ExportUser writes all data of a user, as JSON lines, and checks them against the manifest, which it returns. If it
// fails, what was written is incomplete. Without a deadline of the context, or WithTimeout, it has an hour. The
// functions set options.
func (c *Client) ExportUser(
	ctx context.Context, user string, into io.Writer, with ...func(*Transfer),
) (*pb.ExportManifest, error) {
	transfer := newTransfer(with)
	// Whatever ends this ends the stream.
	ctx, cancel := c.writes.limited(ctx, transferTimeout)
	defer cancel()
	return read(ctx, c.tokens, user, &pb.ExportUserRequest{UserId: user}, func(
		ctx context.Context, request *pb.ExportUserRequest, _ ...grpc.CallOption,
	) (*pb.ExportManifest, error) {
		return c.receive(ctx, request, into, transfer)
	})
}

func (c *Client) receive(
	ctx context.Context, request *pb.ExportUserRequest, into io.Writer, transfer *Transfer,
) (*pb.ExportManifest, error) {
	stream, err := c.Privacy.ExportUser(ctx, request)
	if err != nil {
		return nil, err
	}
	var manifest *pb.ExportManifest
	var size int64
	digest := sha256.New()
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if told := reply.GetManifest(); told != nil {
			manifest = told
			continue
		}
		digest.Write(reply.GetData())
		if _, err := into.Write(reply.GetData()); err != nil {
			return nil, fmt.Errorf("hitherto: the export cannot be written: %w", err)
		}
		size += int64(len(reply.GetData()))
		transfer.Progress(size)
	}
	if manifest.GetTotalBytes() != size || manifest.GetSha256() != hex.EncodeToString(digest.Sum(nil)) {
		return nil, c.writes.readError(status.Errorf(codes.DataLoss,
			"the export is incomplete or was changed on the way (%d bytes came): ask for it again", size), "")
	}
	return manifest, nil
}

// ImportUser stores the records of an export again, as they were written; no model is called. The user must be
// unknown, hold nothing, or be the user of the export, whose records are then skipped where they exist. The import
// of the same export therefore continues an interrupted one; if the reader is an io.Seeker, such as a file, a call
// that breaks off is continued by itself. Without a deadline of the context, or WithTimeout, it has an hour. The
// functions set options.
func (c *Client) ImportUser(
	ctx context.Context, user string, export io.Reader, with ...func(*Transfer),
) (*pb.ImportUserResponse, error) {
	transfer := newTransfer(with)
	// If the reader fails, this tells the service that what was sent is not the whole.
	ctx, cancel := c.writes.limited(ctx, transferTimeout)
	defer cancel()
	piece := &pb.ImportUserRequest{UserId: user, IdempotencyKey: transfer.IdempotencyKey}
	return write(ctx, c.tokens, user, piece, func(
		ctx context.Context, piece *pb.ImportUserRequest, _ ...grpc.CallOption,
	) (*pb.ImportUserResponse, error) {
		return c.send(ctx, piece, export, transfer)
	})
}

// send sends an export, from its start again if the call breaks off: what was stored already is skipped.
func (c *Client) send(
	ctx context.Context, piece *pb.ImportUserRequest, export io.Reader, transfer *Transfer,
) (*pb.ImportUserResponse, error) {
	var start int64
	seeker, seekable := export.(io.Seeker)
	if seekable {
		var err error
		start, err = seeker.Seek(0, io.SeekCurrent)
		// A pipe is a file that cannot be read again.
		seekable = err == nil
	}
	at := c.writes
	for failures := 1; ; failures++ {
		reply, taken, err := c.sendOnce(ctx, piece, export, transfer)
		if taken {
			// A service that took a piece comes back, if it goes: only the time bounds the wait.
			at.retry = at.retry.withoutEnd()
		}
		// An error of the reader may wrap one of another call.
		failed, ok := err.(*Error)
		if !ok || !seekable {
			return reply, err
		}
		if err := at.pause(ctx, failed, failures, true); err != nil {
			return nil, err
		}
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return nil, errors.Join(failed, err)
		}
	}
}

// sendOnce makes one call, and reports whether a piece was sent.
func (c *Client) sendOnce(
	ctx context.Context, piece *pb.ImportUserRequest, export io.Reader, transfer *Transfer,
) (reply *pb.ImportUserResponse, taken bool, _ error) {
	stream, err := c.Privacy.ImportUser(ctx)
	if err != nil {
		return nil, false, err
	}
	var sent int64
	for {
		// A new buffer, since gRPC may still hold the last one.
		var data bytes.Buffer
		data.Grow(pieceBytes + bytes.MinRead)
		size, err := io.CopyN(&data, export, pieceBytes)
		// Only io.EOF itself is the end: a decompressor says io.ErrUnexpectedEOF of a file that was cut off.
		ended := err == io.EOF
		if err != nil && !ended {
			return nil, taken, fmt.Errorf("hitherto: the export cannot be read: %w", err)
		}
		if size > 0 || sent == 0 {
			err := stream.Send(&pb.ImportUserRequest{
				UserId: piece.GetUserId(), IdempotencyKey: piece.GetIdempotencyKey(), Data: data.Bytes(),
			})
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, taken, err
			}
			taken = taken || err == nil
			// After io.EOF the reply says why the call ended.
			ended = ended || err != nil
			sent += size
			transfer.Progress(sent)
		}
		if ended {
			reply, err = stream.CloseAndRecv()
			return reply, taken, err
		}
	}
}
