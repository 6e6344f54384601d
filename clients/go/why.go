package hitherto

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	pb "hitherto.com/go/hitherto/v1"
)

const (
	mostSources  = 6
	mostMessages = 1000
	// What one call returns at most.
	messagePage = 200
)

// Proof is a memory, and the words that it rests on.
type Proof struct {
	Memory *pb.Memory
	// Quotes are in the order in which they were learnt from; there are none of what was saved by hand.
	Quotes []SourceQuote
}

// SourceQuote is a message that a memory was learnt from, with its neighbours.
type SourceQuote struct {
	ConversationID, Title, MessageID string
	// Message is nil if it cannot be read, is no longer stored, or is far back in a long conversation.
	Before, Message, After *pb.Message
}

// Why returns a memory with the words that it was learnt from; nil if there is no such memory. Of each of the first
// six messages behind it, the proof has what was said just before and after.
func (c *Client) Why(ctx context.Context, user, memoryID string) (*Proof, error) {
	memory, err := c.GetMemory(ctx, user, memoryID)
	if memory == nil || err != nil {
		return nil, err
	}
	proof := &Proof{Memory: memory}
	var conversations []string
	wanted := map[string][]string{}
	for _, source := range memory.GetSources()[:min(mostSources, len(memory.GetSources()))] {
		id := source.GetConversationId()
		if wanted[id] == nil {
			conversations = append(conversations, id)
		}
		wanted[id] = append(wanted[id], source.GetMessageId())
	}
	for _, conversation := range conversations {
		quotes, err := c.quotes(ctx, user, conversation, wanted[conversation])
		if err != nil {
			return nil, err
		}
		proof.Quotes = append(proof.Quotes, quotes...)
	}
	return proof, nil
}

func (c *Client) quotes(ctx context.Context, user, conversation string, ids []string) ([]SourceQuote, error) {
	found, err := c.GetConversation(ctx, user, conversation, func(r *pb.GetConversationRequest) { r.MessageLimit = 1 })
	var messages []*pb.Message
	if err == nil {
		messages, err = c.messagesDownTo(ctx, user, conversation, ids)
	}
	var failed *Error
	// Sealed, and its key is away: the memory itself can be shown all the same.
	if err != nil && !(errors.As(err, &failed) && failed.Code == codes.FailedPrecondition) {
		return nil, err
	}
	at := func(place int) *pb.Message {
		if place < 0 || place >= len(messages) {
			return nil
		}
		return messages[place]
	}
	var quotes []SourceQuote
	for _, id := range ids {
		quote := SourceQuote{ConversationID: conversation, Title: found.GetSummary().GetTitle(), MessageID: id}
		place := slices.IndexFunc(messages, func(message *pb.Message) bool { return message.GetId() == id })
		if place >= 0 {
			quote.Before, quote.Message, quote.After = at(place-1), at(place), at(place+1)
		}
		quotes = append(quotes, quote)
	}
	return quotes, nil
}

// messagesDownTo returns the last messages of a conversation back to the one before those wanted, in order.
func (c *Client) messagesDownTo(
	ctx context.Context, user, conversation string, wanted []string,
) ([]*pb.Message, error) {
	var messages []*pb.Message
	missing := slices.Clone(wanted)
	for message, err := range c.Messages(ctx, user, conversation) {
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
		if len(missing) == 0 || len(messages) >= mostMessages {
			break
		}
		missing = slices.DeleteFunc(missing, func(id string) bool { return id == message.GetId() })
	}
	slices.Reverse(messages)
	return messages, nil
}
