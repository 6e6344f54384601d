package hitherto

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	pb "hitherto.com/go/hitherto/v1"
)

// SaveMemory remembers one statement at once. If the user has a memory with the same meaning, that one gets a new
// version instead. The functions set further fields of the request.
func (c *Client) SaveMemory(
	ctx context.Context, user, content string, with ...func(*pb.SaveMemoryRequest),
) (*pb.SaveMemoryResponse, error) {
	request := filled(&pb.SaveMemoryRequest{UserId: user, Content: content}, with)
	return write(ctx, c.tokens, user, request, c.Memory.SaveMemory)
}

// UpdateMemory corrects a memory; it keeps its id and its earlier versions. What changes sets is changed. The functions
// set further fields of the request: a path that they add to its UpdateMask, and that changes does not set, is emptied.
// The reply has the memory, and what else states its earlier words.
func (c *Client) UpdateMemory(
	ctx context.Context, user, memoryID string, changes *pb.Memory, with ...func(*pb.UpdateMemoryRequest),
) (*pb.UpdateMemoryResponse, error) {
	request := filled(&pb.UpdateMemoryRequest{
		UserId: user, MemoryId: memoryID, Memory: changes, UpdateMask: maskOf(changes, false),
	}, with)
	return write(ctx, c.tokens, user, request, c.Memory.UpdateMemory)
}

// ForgetMemory has reads no longer return a memory; earlier messages never bring it back, and RestoreMemory does. The
// reply has the memory, and what else states it.
func (c *Client) ForgetMemory(
	ctx context.Context, user, memoryID string, with ...func(*pb.ForgetMemoryRequest),
) (*pb.ForgetMemoryResponse, error) {
	request := filled(&pb.ForgetMemoryRequest{UserId: user, MemoryId: memoryID}, with)
	return write(ctx, c.tokens, user, request, c.Memory.ForgetMemory)
}

// RestoreMemory brings a forgotten or archived memory back.
func (c *Client) RestoreMemory(
	ctx context.Context, user, memoryID string, with ...func(*pb.RestoreMemoryRequest),
) (*pb.Memory, error) {
	request := filled(&pb.RestoreMemoryRequest{UserId: user, MemoryId: memoryID}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Memory.RestoreMemory)
	return reply.GetMemory(), err
}

// GetMemory returns one memory, whatever its status; nil if there is none.
func (c *Client) GetMemory(ctx context.Context, user, memoryID string) (*pb.Memory, error) {
	request := &pb.GetMemoryRequest{UserId: user, MemoryId: memoryID}
	reply, err := read(ctx, c.tokens, user, request, c.Retrieval.GetMemory)
	if notFound(err) {
		return nil, nil
	}
	return reply.GetMemory(), err
}

// GetContext returns what an assistant should know before it answers the query; its PromptBlock is the text for the
// assistant's prompt. The functions set further fields of the request.
func (c *Client) GetContext(
	ctx context.Context, user, query string, with ...func(*pb.GetContextRequest),
) (*pb.GetContextResponse, error) {
	request := filled(&pb.GetContextRequest{UserId: user, Query: query}, with)
	return read(ctx, c.tokens, user, request, c.Retrieval.GetContext)
}

// Search returns the best results for the query. The functions set further fields of the request.
func (c *Client) Search(
	ctx context.Context, user, query string, with ...func(*pb.SearchMemoriesRequest),
) (*pb.SearchMemoriesResponse, error) {
	request := filled(&pb.SearchMemoriesRequest{UserId: user, Query: query}, with)
	return read(ctx, c.tokens, user, request, c.Retrieval.SearchMemories)
}

// Memories iterates over a user's memories, fetching page after page. It ends with the first error. The functions
// set filters, order and page size.
func (c *Client) Memories(
	ctx context.Context, user string, with ...func(*pb.ListMemoriesRequest),
) iter.Seq2[*pb.Memory, error] {
	request := filled(&pb.ListMemoriesRequest{UserId: user}, with)
	return items(func(token string) ([]*pb.Memory, string, error) {
		request.PageToken = token
		page, err := read(ctx, c.tokens, user, request, c.Retrieval.ListMemories)
		return page.GetMemories(), page.GetNextPageToken(), err
	})
}

// MemoryHistory iterates over every change of a memory, newest first, fetching page after page. It ends with the first
// error. The functions set the page size.
func (c *Client) MemoryHistory(
	ctx context.Context, user, memoryID string, with ...func(*pb.GetMemoryHistoryRequest),
) iter.Seq2[*pb.HistoryEvent, error] {
	request := filled(&pb.GetMemoryHistoryRequest{UserId: user, MemoryId: memoryID}, with)
	return items(func(token string) ([]*pb.HistoryEvent, string, error) {
		request.PageToken = token
		page, err := read(ctx, c.tokens, user, request, c.Retrieval.GetMemoryHistory)
		return page.GetEvents(), page.GetNextPageToken(), err
	})
}

// items iterates over what is fetched page by page: for a token, the page and the token of the next one.
func items[T any](fetch func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token, more := "", true; more; more = token != "" {
			page, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			token = next
		}
	}
}

func filled[Q proto.Message](request Q, with []func(Q)) Q {
	for _, fill := range with {
		fill(request)
	}
	return request
}
