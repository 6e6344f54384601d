package hitherto

import (
	"container/list"
	"strings"
	"sync"
)

const (
	// By the time that another user takes a place, a replica has long caught up with its token.
	mostUsers = 10_000
	// What a service takes in one request.
	mostTokens = 16
	// In the place of a user: writes for any one of them; writes for who knows how many.
	anyUser, everyUser = "\x00any", "\x00every"
)

// ownWrites keeps the consistency tokens of the users whom this client has written for.
//
// Tokens cannot be compared. Of writes that overlapped, the tokens of all are kept and sent together; a write that
// began after another one ended has the token that covers both.
type ownWrites struct {
	lock     sync.Mutex
	arrivals int
	byUser   map[string]*list.Element
	// The users, the one written for last at the end.
	users list.List
}

type userTokens struct {
	user string
	kept []arrivedToken
}

type arrivedToken struct {
	token   string
	arrival int
}

// begin says that a write begins; note takes what this returns.
func (o *ownWrites) begin() int {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.arrivals
}

// note keeps the token of a write, for any number of users if user is empty. It covers what had ended when the
// write began.
func (o *ownWrites) note(user, token string, begun int) {
	if token == "" {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.byUser == nil {
		o.byUser = map[string]*list.Element{}
	}
	if user == "" {
		user = everyUser
	}
	o.arrivals++
	for _, name := range []string{user, anyUser} {
		var kept []arrivedToken
		if known, ok := o.byUser[name]; ok {
			for _, old := range o.users.Remove(known).(userTokens).kept {
				if old.arrival > begun && old.token != token {
					kept = append(kept, old)
				}
			}
		}
		kept = append(kept, arrivedToken{token, o.arrivals})
		kept = kept[max(0, len(kept)-mostTokens):]
		o.byUser[name] = o.users.PushBack(userTokens{name, kept})
	}
	for o.users.Len() > mostUsers {
		delete(o.byUser, o.users.Remove(o.users.Front()).(userTokens).user)
	}
}

// of returns what a read of this user sends; for no user, what covers the reads of any.
func (o *ownWrites) of(user string) string {
	o.lock.Lock()
	defer o.lock.Unlock()
	names := []string{everyUser, user}
	if user == "" {
		names = []string{anyUser}
	}
	var found []string
	known := map[string]bool{}
	for _, name := range names {
		if element, ok := o.byUser[name]; ok {
			for _, kept := range element.Value.(userTokens).kept {
				if !known[kept.token] {
					known[kept.token] = true
					found = append(found, kept.token)
				}
			}
		}
	}
	return strings.Join(found[max(0, len(found)-mostTokens):], " ")
}

// drop forgets the tokens of a user, which the services no longer accept.
func (o *ownWrites) drop(user string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, name := range []string{user, everyUser, anyUser} {
		if known, ok := o.byUser[name]; ok {
			o.users.Remove(known)
			delete(o.byUser, name)
		}
	}
}
