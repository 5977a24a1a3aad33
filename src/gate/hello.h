// SPDX-License-Identifier: Apache-2.0
// The first bytes of a client: what they are, and what a TLS ClientHello says. Pure.
#pragma once
#include "model/name.h"

#define HELLO_MAX (16u << 10) // bytes of a ClientHello with its record headers
#define HELLO_LINE 8192	      // bytes of a request line that are waited for

enum sniff { SNIFF_MORE, SNIFF_TLS, SNIFF_HTTP, SNIFF_OTHER };
// TLS: a handshake record of SSL 3.0 or later begins. HTTP: a request line (empty lines before it allowed, as servers
// allow them). MORE: it may still become either.
enum sniff hello_sniff(const void *p, size_t n);

// The first line of a connection that is passed on although it is no request: a server that reads loosely may take it for one,
// with bytes before the method, control bytes as separators or in the method, no version or a foreign one. However the line
// is cut into pieces, REQUEST comes before its last byte is passed on, and so before any field (Host) counts.
#define REQUEST_START 64	    // bytes of a line that tell a method and the begin of a target
#define REQUEST_LINE (128u << 10) // no server takes a longer line
enum request_scan_state { SCAN_MORE, SCAN_REQUEST, SCAN_OVER };
struct request_scan {
	char start[REQUEST_START];
	size_t n, seen; // bytes of start; of the line
	unsigned matched;   // bytes of "HTTP/" that the line's last ones are
	enum request_scan_state state;
};
enum request_scan_state request_scan_feed(struct request_scan *s, const void *p, size_t n); // s is zeroed at first

enum hello_state { HELLO_MORE, HELLO_OK, HELLO_BAD };
struct hello {
	bool has_sni, ech, h2; // h2: offered by ALPN
	struct host_name sni;  // canonical
	size_t n;	       // bytes of the records that hold it
	const char *why;       // BAD: the reason, constant text
};
// Reads a ClientHello from the start of the client's bytes, however it is cut into records. BAD for anything a client
// of ours would not send: more than HELLO_MAX, records of another type before its end, lengths that do not add up, an
// extension twice, a server name that is no host name, more than one of them.
enum hello_state hello_parse(const void *p, size_t n, struct hello *out);
