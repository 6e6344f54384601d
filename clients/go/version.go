package hitherto

// Version is the version of this module. The services see it in the user agent of each call.
const Version = "0.1.0"
