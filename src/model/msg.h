// SPDX-License-Identifier: Apache-2.0
// Frame types (base/chan.h) on the channels. Payloads are wire records in the order given.
//
//   N  skepd <-> nursery            K  skepd <-> skep-cell (control)
//   C  local client <-> skep-cell   I  skep-cell <-> init
//   G  skep-cell <-> skep-gate      S  skep-sudo <-> init, inside
//   A  skep <-> skep-ssh, for a sandbox of another machine
//
// A channel to a cell's socket (K, C) starts with HELLO from the connecting side; the slot socket that the
// nursery hands to skepd becomes K with M_SPEC. A request carries an id (frame.id) that its answer repeats.
//
// Streams: 0 = stdin, 1 = stdout (or the terminal), 2 = stderr. Bytes are numbered from 0; a sender may
// send up to the absolute offset the receiver last granted with M_CREDIT.
#pragma once

// Of K, C, N and G alike. Who greets in another version is refused with both numbers, and nothing else of the greeting is read.
#define PROTO_VERSION 3
#define CHANGES_UNKNOWN UINT32_MAX // nobody could look
#define STDIN_APPEND (~0ull) // offset of bytes of stdin that go behind whatever came, also from other clients

// What M_WANT asks for. A slot with a new layer is for a sandbox whose layer directory does not exist yet: the slot's becomes it.
enum slot_kind {
	SLOT_COLD,	// namespaces and network; all else when the spec is there, or M_EXPECT, with which it gets a new layer
	SLOT_WARM,	// and the host's system directories, a new layer and the place
	SLOT_FROM_MOLD, // as SLOT_WARM, but only if there is a mold, else no answer
};

enum msg_type {
	M_NONE,

	// any channel
	M_ERR,	// u32 err_kind, u32 errno, str message
	M_OK,	// answer without content
	M_HELLO, // C, K: u32 version, u8 role, str key (K) or ticket (C; of an exec, or with ROLE_DIAL of M_DIALS), u64 stdout offset, u64 stderr offset (C),
		 // then nothing, or for a client that comes back when its line breaks: str line (a key of its own making), u64 ms to wait for it. Who comes back has no ticket, but the line

	// N: skepd -> nursery
	M_NURSERY, // first: u32 version, str SKEP_HOME, str caller's HOME, strv tool roots, strv hidden paths below them
	M_WANT,	   // u8 profile, u8 enum slot_kind, then, with SLOT_WARM and SLOT_FROM_MOLD, a place or nothing
	// N: supervisor -> nursery, on a socket of its own
	M_MOLD,	   // four frames: + fd channel, + fd pidfd, + fd layer lock, + fd seat lock with u32 seat, str layer, u64 base dev, ino, u64 mark of its lowers, 2 x MOLD_TIMES x u64 change times, place
	M_REMOVE,  // strv directories (layers, sandbox directories) to remove below SKEP_HOME -> M_OK | M_ERR
	M_LAYER,   // layer_op (model/layer.h) -> M_OK layer_result | M_ERR
	// N: nursery -> skepd
	M_BACK, // a mold came back: a slot for its place costs little now
	M_SLOT, // id as in M_WANT; u8 profile, then the place as it was asked; + fd: the slot's control channel   (or M_ERR)

	// K: skepd -> cell
	M_SPEC,	  // stream 1: slots abound, nobody needs this one soon again; cell_spec -> M_UP | M_ERR (UNAVAILABLE: the place is no longer what the slot was made for; take another)
	M_EXEC,	  // exec_spec, str ticket ("" = none) -> M_STARTED | M_ERR
	M_TICKET, // str exec id, str ticket -> M_OK | M_ERR
	M_KILL,	  // str exec id, u32 signal: the exec's whole tree -> M_OK | M_ERR
	M_STOP,	  // u32 grace ms, u8 remove layer and sandbox directory -> M_GONE, then end of channel
	M_PAUSE,  // -> M_OK (nothing runs any more) | M_ERR
	M_RESUME, // -> M_OK | M_ERR
	M_EVENT,  // str type, str by, str body (JSON members): appended to the journal -> M_OK
	M_LIMITS, // limits, u64 expires_unix_ms, u64 idle_ms -> M_OK
	// K: cell -> skepd
	M_UP,	   // u32 pid of skep-cell, u64 start time, u8 paused, isolation, u64 journal seq, str journal head hash
	M_STARTED, // str exec id, u32 pid inside   (also sent for each running exec after a HELLO)
	M_EXITED,  // str exec id, exec_result      (also sent for each remembered exec after a HELLO)
	M_GONE,	   // stream 1: it may be a slot once more, M_AGAIN tells; 2: when it is woken; str reason ("stopped", "exec ended", "expired", "idle", "died: ..."), u32 pending changes (-1 = not looked), u8 removed (the layer was renamed to .gone-ID beside it), u64 journal seq, str head hash
	M_HIT,	   // K and C: str limit, str message: a limit was hit and what to do about it
	M_PAUSED,  // u8 paused: by limit or by request
	M_PENDING, // u32 changed paths, some time after an exec ended

	// C and I: streams of one exec (C: the ticket's exec, frame.id 0; I: frame.id = exec number)
	M_DATA,	   // stream in the header; C: u64 offset (of stdin also STDIN_APPEND; of who has a line: among its own bytes) then bytes; I: bytes
	M_CREDIT,  // stream in the header; u64 absolute offset that may be reached; to C also u64 bytes of stdin received so far, and to who has a line u64 how many of them were its own, u64 number of the last signal that came from it
	M_EOF,	   // inwards, stream in the header; 1 or 2: nobody reads it any more
	M_GAP,	   // C, stream in the header: u64 from, u64 to: bytes not kept
	M_WINSIZE, // u32 rows, u32 cols
	M_SIGNAL,  // u32 signal, to the exec's tree; id 0: to every process but init; C, of who has a line: also u64 its number, from 1
	M_SUSPENDED, // the foreground job of the terminal stopped (^Z); M_SIGNAL SIGCONT goes on
	M_EXIT,	   // exec_result; I: stream 1: the cell ends with it, M_CHANGES follows; u32 wait status, or u32 -1 and u32 errno, str what
	M_CHANGES, // I: u32 count, strv as for C, u32 files changed since the walk before beyond those told, u32 n, n x (u8 kind, u8 as
		   // the base again, u8 executable, str path, bytes SHA-256 before, after; empty: none). C, after M_EXIT where the cell ends with it: u32 count or
		   // CHANGES_UNKNOWN, strv "A path" | "M path" | "D path". Then, from newer ones, bytes changes_sum (model/pending.h)
	M_DONE,	   // C, last: u8 sandbox removed

	// I: skep-cell -> init
	M_BUILD,   // enter the plan: cell_spec; + mounts prepared outside follow as M_MOUNT
	M_MOUNT,   // + fd: a detached mount, in the order of the plan's needs
	M_FREEZE,  // u8 on: stop or continue everything by signals -> M_FREEZE u8 done (0: something would not stop; all goes on)
	M_END,	   // u32 grace ms, u8 walk: end every process, send M_CHANGES (with walk, and if it could be made), exit
	M_CLONE,   // to a mold: stream 1: its sockets are known; + fd: the channel of the process to clone -> M_OK u32 pid, + fd: pidfd | M_ERR
	M_SCRATCH, // from a mold, before its answer: + fd: the tmpfs its cells have in turn
	M_CLEAN,   // to a mold: its last cell left something in its scratch space -> M_OK | M_ERR
	M_FIT,	   // to a mold: is its network as it was made? What its overlays remember of the files below is dropped -> M_OK | M_ERR
	M_WALK,	   // u8 first in this cell: what is older than it is no news: look what changed, beside the work -> M_CHANGES with id 1
	M_USAGE,   // u64 bytes in files without a name and in sockets -> M_USAGE, also unasked when a process was killed: u64 bytes used, u32 pid of the process killed for it or 0, u32 processes and threads
	M_MOVABLE, // id; str name, u8 enum move_verb, u8 as somebody else: u32 uid, u32 gid, u64 capabilities, u32 n, n x u32 groups; + fd: its directory:
		   // do that with that name in it -> M_MOVABLE with the same id, whatever came of it
	// I: init -> skep-cell
	M_READY,   // isolation; + fd: the seccomp listener
	M_BEGUN,   // id; u32 pid inside
	M_MEMBERS, // id -> u32 count of processes beside init (asked with the same type, empty); K too

	M_AGENT, // make the ssh agent's socket -> M_AGENT + fd: its listener | without one: it could not be made. Asked with the same type, empty

	// G: skep-cell -> skep-gate
	M_GATE,	   // first: u32 version, str sandbox, policy, str resolver ("" = the system's), str CA certificate ("" = none)
	M_SOCKET,  // stream = enum gate_socket; + fd: a socket made in the cell's network. GATE_AGENT also after M_GO
	M_SECRETS, // + fd: sealed memory with secret values and the CA's key; replaces what came before
	M_GO,	   // everything is there: serve -> M_OK | M_ERR
	// G: skep-gate -> skep-cell
	M_WHO,	   // id, stream = enum who_socket; G: u32 port, bytes address inside, bytes address (4 or 16), u32 port dialled; I: u32 port, u64 inode -> u32 pid, str exec id, str name of the program
	// G and K: skepd -> skep-cell -> skep-gate
	M_POLICY,  // policy; K: also str resolver, str CA certificate, str path of further CAs, + fd as in M_SECRETS -> M_OK (K)
	// G, K and C, from the gate outwards and back
	M_ASK,	   // id; str host, u32 port, str method, str path: a connection is held until somebody answers
	M_ANSWER,  // id; u8 verdict (to the gate also ASK: No, for want of anybody), u8 scope; from skepd also str by whom
	// K: cell -> skepd
	M_AGAIN,   // after M_GONE: a slot for the same place, waits for M_SPEC. What skepd sent before it heard of the end is not answered

	// Connections into the cell: K, I, and C of who greeted as ROLE_DIAL
	M_DIAL,	   // id; u32 port of the cell's own loopback, str path of a socket there instead (port 0), NULL = none -> M_DIALLED | M_ERR (I: M_DIALLED without a descriptor)
	M_DIALLED, // id; + fd: connected. I: without one: u32 err_kind, u32 errno, str message
	M_PORTS,   // I: asked empty -> u32 n, n x (u32 port, u8 on loopback only, u32 pid, str exec, str program): who listens
	M_PORT,	   // K: u8 open, then as one of them; also sent for each after a HELLO
	M_DIALS,   // K: str ticket: who shows it may dial -> M_OK | M_ERR
	// C: client -> cell
	// S uses: M_SOCKET stream = 0, 1, 2, + fd: the command's; then M_EXEC exec_spec (id, kind and streams do not count) -> M_BEGUN |
	// M_ERR; M_SIGNAL u32 signal, to its process group; at its end M_EXIT u32 wait status
	M_HANGUP,  // when this client goes, with or without a word, and nobody else is attached, the exec loses its line: a terminal is
		   // hung up (SIGHUP), else its streams are closed
	// K: skepd -> slot
	M_EXPECT,  // str sandbox, str machine id, bytes of a shape (model/spec.h): build for the sandbox that will probably come. No answer
	M_WAKE,	   // after M_GONE with stream 2: be a slot once more -> M_AGAIN
	// I: skep-cell -> init
	M_TURN,	   // what was built ahead is used now: u8 the first exec's end is the cell's, u8 it shall outlive its mold (-> M_TURN: it does),
		   // u8 with that end it stays, doing nothing, until the channel ends
	// A: skep-ssh -> skep, which asks the skepd of SKEP_HOST. M_DIAL and its answers as above
	M_POST,	   // stream 0: an exec, 1: a job; JSON -> M_OK JSON | M_ERR
	M_LINE,	   // -> M_OK + fd: channel C | M_ERR
	// C: client -> cell
	M_SEEN,	   // of who has a line: stream 1 or 2: u64 offset: what is before it has come. 0: the client goes and does not come back
	// I
	M_ROOT,	   // asked empty -> the same + fd: the cell's root directory, O_PATH
	// N: skepd -> nursery
	M_VOLUME,  // volume_op (model/volume.h); + fd of the bytes that are put -> M_OK + fd of the answer | M_ERR
	// K: skepd -> cell
	M_REFRESH, // the base has changed, and the cell's commands shall see that. No answer
};

// GATE_WIDE4 and 6 listen only while the policy has ranges that allow: whoever has the policy knows.
enum gate_socket { GATE_TCP, GATE_DNS_UDP, GATE_DNS_TCP, GATE_AGENT, GATE_WIDE4, GATE_WIDE6, GATE_SOCKETS };
#define AGENT_SOCKET "/run/lock/skep-ssh-agent" // inside; GATE_AGENT is the listener
#define SUDO_SOCKET "/run/skep-sudo" // inside, with --root: where init listens on S
enum who_socket { WHO_TCP, WHO_UDP };
enum answer_scope { SCOPE_ONCE, SCOPE_SANDBOX, SCOPE_ALWAYS };

enum msg_role { ROLE_CLIENT, ROLE_CONTROL, ROLE_DIAL };
