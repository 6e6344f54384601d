-- ClearMemories takes away what was learnt from the user's behaviour along with the profile.
GRANT DELETE ON preferences TO hitherto_removal;
