package hitherto

import (
	"context"
	"time"

	pb "hitherto.com/go/hitherto/v1"
)

// clearTimeout is the default of clearing and erasing, which take as long as there is to remove.
const clearTimeout = 5 * time.Minute

// GetProfile returns the user's profile; nil if there is none, or memory is switched off.
func (c *Client) GetProfile(ctx context.Context, user string) (*pb.Profile, error) {
	reply, err := read(ctx, c.tokens, user, &pb.GetProfileRequest{UserId: user}, c.Retrieval.GetProfile)
	if notFound(err) {
		return nil, nil
	}
	return reply.GetProfile(), err
}

// UpdateProfile changes or creates a profile by hand. What changes sets is changed, of a Struct key by key; the rest
// stays. The functions set further fields of the request: a path that they add to its UpdateMask, and that changes does
// not set, is emptied.
func (c *Client) UpdateProfile(
	ctx context.Context, user string, changes *pb.Profile, with ...func(*pb.UpdateProfileRequest),
) (*pb.Profile, error) {
	request := filled(&pb.UpdateProfileRequest{
		UserId: user, Profile: changes, UpdateMask: maskOf(changes, true),
	}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Memory.UpdateProfile)
	return reply.GetProfile(), err
}

// GetUserSettings returns the effective settings of a user.
func (c *Client) GetUserSettings(ctx context.Context, user string) (*pb.UserSettings, error) {
	request := &pb.GetUserSettingsRequest{UserId: user}
	reply, err := read(ctx, c.tokens, user, request, c.Privacy.GetUserSettings)
	return reply.GetUserSettings(), err
}

// UpdateUserSettings changes what changes sets. The functions set further fields of the request: a setting that they
// add to its UpdateMask, and that changes does not set, is reset to that of the installation.
func (c *Client) UpdateUserSettings(
	ctx context.Context, user string, changes *pb.UserSettings, with ...func(*pb.UpdateUserSettingsRequest),
) (*pb.UserSettings, error) {
	request := filled(&pb.UpdateUserSettingsRequest{
		UserId: user, UserSettings: changes, UpdateMask: maskOf(changes, false),
	}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Privacy.UpdateUserSettings)
	return reply.GetUserSettings(), err
}

// ClearMemories forgets all memories of a user; conversations, if included, are gone for good. It returns the number
// of rows, by kind. An interrupted call keeps what it has done; the next call does the rest. Without a deadline of the
// context, or WithTimeout, it has five minutes.
func (c *Client) ClearMemories(
	ctx context.Context, user string, with ...func(*pb.ClearMemoriesRequest),
) (map[string]int64, error) {
	ctx, cancel := c.writes.limited(ctx, clearTimeout)
	defer cancel()
	request := filled(&pb.ClearMemoriesRequest{UserId: user}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Privacy.ClearMemories)
	return reply.GetCounts(), err
}

// EraseUser removes everything that is stored about a user, for good. Later writes for the user fail with USER_ERASED
// until ReinstateUser. An interrupted call keeps what it has done; the next call does the rest, and its receipt covers
// all of it. Without a deadline of the context, or WithTimeout, it has five minutes.
func (c *Client) EraseUser(
	ctx context.Context, user string, with ...func(*pb.EraseUserRequest),
) (*pb.EraseReceipt, error) {
	ctx, cancel := c.writes.limited(ctx, clearTimeout)
	defer cancel()
	request := filled(&pb.EraseUserRequest{UserId: user}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Privacy.EraseUser)
	return reply.GetReceipt(), err
}

// ReinstateUser allows writes for an erased user again; nothing that was erased comes back. It reports whether the
// user was erased before.
func (c *Client) ReinstateUser(
	ctx context.Context, user string, with ...func(*pb.ReinstateUserRequest),
) (bool, error) {
	request := filled(&pb.ReinstateUserRequest{UserId: user}, with)
	reply, err := write(ctx, c.tokens, user, request, c.Privacy.ReinstateUser)
	return reply.GetReinstated(), err
}
