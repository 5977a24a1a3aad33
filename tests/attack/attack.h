// SPDX-License-Identifier: Apache-2.0
// skep-attack: tries, from inside a cell, what docs/security.md says cannot be done.
//
// An independent witness: it shares no code with the product and asks the kernel only. Each row of the catalogue is
// one probe function made of many attempts. The same function runs in two places: `inside` a cell, where every
// attempt must be refused, and `outside` on the host (the negative control), where at least one must succeed, else
// the row proves nothing. So a probe must be harmless on the host even for root: bad arguments, opens without
// writes, the scratch directory, or a private user namespace (probe_escalate).
//
// A verdict is kept in shared memory, so that attempts made in forked children count too. A row that hangs or dies
// without a verdict is reported as ESCAPED: no news is not good news.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRINTF(a, b) __attribute__((format(printf, a, b)))
#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PATH_SIZE 512
#define MARKER_SIZE 32

struct probe {
	bool outside;		 // negative control on the host
	bool root;		 // SKEP_ATTACK_PROFILE=root: the documented capabilities are there
	char ws[PATH_SIZE];	 // the workspace (outside: the scratch directory)
	char scratch[PATH_SIZE]; // a directory we may write to: /tmp inside, the harness's own outside
	unsigned char marker[MARKER_SIZE];
	bool has_marker;
	unsigned held, broke;
	char escapes[1200], notes[1200], skip[200], nocontrol[200];
};

struct row {
	const char *id, *severity, *title;
	void (*fn)(struct probe *p);
	unsigned seconds;   // before the row counts as hung; 0 = 60
	bool kill_contains; // the kernel ending the probe (memory) is the expected answer
};
extern const struct row rows[];
extern const size_t n_rows;

// What one attempt brought. held: refused as it should; broke: it worked, the text says what.
void held(struct probe *p);
void broke(struct probe *p, const char *fmt, ...) PRINTF(2, 3);
void judge(struct probe *p, bool contained, const char *fmt, ...) PRINTF(3, 4);
void note(struct probe *p, const char *fmt, ...) PRINTF(2, 3);
// The row as a whole can not be tried here / has no harmless control. Escapes seen all the same win over a skip.
void skip(struct probe *p, const char *fmt, ...) PRINTF(2, 3);
void nocontrol(struct probe *p, const char *fmt, ...) PRINTF(2, 3);

// Formats into a fixed buffer; what does not fit is cut (names are only ever tried, never trusted).
char *fmt(char *dst, size_t size, const char *format, ...) PRINTF(3, 4);
const char *env_or(const char *name, const char *otherwise);
long env_long(const char *name, long otherwise);
const char *err_name(int err);
ssize_t slurp(const char *path, void *buf, size_t size); // bytes read, NUL added; -1 with errno
ssize_t slurp_fd(int fd, void *buf, size_t size);
bool has_marker(const struct probe *p, const void *buf, size_t n);
bool reads_marker(const struct probe *p, const char *path);
bool same_file(const char *a, const char *b);
bool status_field(const char *path, const char *name, char *out, size_t size); // of /proc/…/status
size_t list_pids(int *out, size_t max);
// Calls fn for every path of a colon-separated list.
void each_path(struct probe *p, const char *list, void (*fn)(struct probe *p, const char *path));

// One system call in a child of its own.
struct answer {
	int sig; // killed by
	int err; // 0 = it worked
	long ret;
};
struct answer try_call(long nr, const long args[6]);
#define TRY(nr, ...) try_call(nr, (const long[6]){__VA_ARGS__})
bool is_refused(struct answer a); // killed by the filter, EPERM, EACCES or ENOSYS
// Judges that a call is refused before the kernel looks at its arguments.
void must_refuse(struct probe *p, const char *what, struct answer a);

// Runs fn in a child with a time limit. Returns its wait status.
int in_child(struct probe *p, void (*fn)(struct probe *p));
// What an attacker does first: own user namespace and all others with it. True when it worked. Outside, a probe that
// would touch the host must return at once when this is false.
bool probe_escalate(struct probe *p);
void put_file(const char *path, const char *text); // a write to /proc or to scratch; errors do not matter

struct mount {
	char root[PATH_SIZE], point[PATH_SIZE], opts[160], tags[80], type[32], source[128];
};
size_t load_mounts(const struct mount **out);	// of this process; storage is static
const struct mount *mount_at(const char *path); // the one `path` lies on
bool has_opt(const char *opts, const char *opt);

// Other programs of this binary.
int host_prepare(const char *dir);
int host_serve(const char *dir);
int host_clean(const char *dir);
int run_without(const char *call, char **argv); // does not return when it works
void scan_fds(struct probe *p);
void outlive(const char *mode);

// The rows, by file.
void t001_read(struct probe *p);
void t002_alias(struct probe *p);
void t003_change(struct probe *p);
void t004_create(struct probe *p);
void t005_fds(struct probe *p);
void t006_cwd(struct probe *p);
void t007_helper(struct probe *p);
void t008_mount(struct probe *p);
void t009_mount_api(struct probe *p);
void t010_masked(struct probe *p);
void t011_mask_real(struct probe *p);
void t012_sysctl(struct probe *p);
void t013_devices(struct probe *p);
void t014_device_in_repo(struct probe *p);
void t015_neighbour(struct probe *p);
void t016_leaks(struct probe *p);
void t017_setuid(struct probe *p);
void t018_caps(struct probe *p);
void t019_userns(struct probe *p);
void t020_uring(struct probe *p);
void t021_keys(struct probe *p);
void t022_cross(struct probe *p);
void t023_surface(struct probe *p);
void t024_count(struct probe *p);
void t025_terminal(struct probe *p);
void t026_ipc(struct probe *p);
void t027_layers(struct probe *p);
void t028_status(struct probe *p);
void t029_repo_config(struct probe *p);
void t030_late(struct probe *p);
void t031_planted(struct probe *p);
void t032_fingerprint(struct probe *p);
void t033_survivors(struct probe *p);
void t034_backend(struct probe *p);
void t039_names(struct probe *p);
void t040_resolvers(struct probe *p);
void t043_connect(struct probe *p);
void t044_names_differ(struct probe *p);
void t045_rebinding(struct probe *p);
void t082_forks(struct probe *p);
void t083_memory(struct probe *p);
void t084_disk(struct probe *p);
void t085_descriptors(struct probe *p);
void t086_output(struct probe *p);
void t101_pid1(struct probe *p);
void t102_foreign_abi(struct probe *p);
void t103_sockets(struct probe *p);
void t104_overlay(struct probe *p);
void t105_race(struct probe *p);
void t106_fd_tricks(struct probe *p);
void t107_cgroup(struct probe *p);
void t108_processes(struct probe *p);
void t109_mount_flags(struct probe *p);
void t110_self_writes(struct probe *p);
void t111_groups(struct probe *p);
void t112_network(struct probe *p);
void t113_relay(struct probe *p);
void t114_gate_memory(struct probe *p);
void t115_pools(struct probe *p);
