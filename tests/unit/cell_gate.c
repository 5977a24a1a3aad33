// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of the gate, against a gate that this program plays itself: when it is started as skep-gate.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/gate_int.h"
#include "cell/members.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

// --- the gate that is played ---

static void say_event(struct chan *c, const char *type, const char *body)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_str(&b, type);
	wire_str(&b, "somebody");
	wire_str(&b, body);
	chan_send_buf(c, M_EVENT, 0, &b);
}

static void ask(struct chan *c)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_str(&b, "asked.test");
	wire_u32(&b, 443);
	wire_str(&b, "");
	wire_str(&b, "");
	chan_send_buf(c, M_ASK, 7, &b);
}

static void serve(struct chan *c, int udp)
{
	static const uint32_t address = 0x0100007f;
	auto_buf struct buf who = BUF_INIT(64);
	struct rlimit files, cores;
	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_CORE, &cores);
	chan_send(c, M_OK, 0, 0, NULL, 0);
	say_event(c, "net.request", files.rlim_max <= 32768 && !cores.rlim_max ? "\"name\":\"limited.test\"" : "");
	say_event(c, "net.request", "\"name\":\"forged.test\"},{\"a\":1");
	say_event(c, "net.request", "\"name\":\"author.test\",\"by\":\"skepd\"");
	say_event(c, "review.applied", "\"name\":\"type.test\"");
	char in[64];
	struct pollfd p = {.fd = udp, .events = POLLIN};
	if (poll(&p, 1, 1000) == 1 && recv(udp, in, sizeof in, 0) > 0)
		say_event(c, "denied", "\"name\":\"datagram.test\"");
	wire_u32(&who, 4711);
	wire_bytes(&who, &address, sizeof address);
	wire_bytes(&who, &address, sizeof address);
	wire_u32(&who, 80);
	chan_send_buf(c, M_WHO, 9, &who);
	ask(c);
}

static void play_on(struct chan *c)
{
	struct frame f;
	struct err e;
	while (!chan_recv(c, &f, &e)) {
		if (f.type == M_ANSWER)
			say_event(c, "denied",
				  f.p[0] == VERDICT_ALLOW ? "\"name\":\"yes.test\"" : "\"name\":\"no.test\"");
		else if (f.type == M_SECRETS)
			say_event(c, "secret.used", f.fd >= 0 ? "\"name\":\"secrets.test\"" : "");
		else if (f.type == M_POLICY)
			say_event(c, "denied", "\"name\":\"policy.test\"");
		else if (f.type == M_WHO)
			say_event(c, "denied", "\"name\":\"who.test\"");
		close_fd(&f.fd);
	}
	say_event(c, "net.request", "\"name\":\"last.test\"");
}

static int play(void)
{
	struct chan c;
	struct frame f;
	struct err e;
	int udp = -1;
	chan_init(&c, 3);
	if (chan_recv(&c, &f, &e) || f.type != M_GATE)
		return 1;
	struct wire w = {.p = f.p, .n = f.n};
	struct policy p;
	uint32_t version = wire_get_u32(&w);
	auto_free char *sandbox = wire_get_str(&w);
	if (policy_read(&w, &p, &e))
		return 1;
	policy_done(&p);
	auto_free char *resolver = wire_get_str(&w), *ca = wire_get_str(&w);
	if (version != PROTO_VERSION || w.bad || w.n || !resolver || !ca || !sandbox || !strcmp(sandbox, "dies"))
		return 1;
	for (int i = 0; i < GATE_AGENT; i++) { // that one only where there is a key
		if (chan_recv(&c, &f, &e) || f.type != M_SOCKET || f.stream != i || f.fd < 0)
			return 1;
		if (i == GATE_DNS_UDP)
			udp = take_fd(&f.fd);
	}
	if (chan_recv(&c, &f, &e) || f.type != M_GO)
		return 1;
	serve(&c, udp);
	play_on(&c);
	return 0;
}

// --- the cell around it ---

static struct cell cell;
static struct gate gate;
static char dir[64], self_path[4096];
static struct timer give_up, once;
static int datagrams; // where to
static struct chan far_init;

static int bound(int type, uint16_t *out_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_false(bind(fd, (struct sockaddr *)&a, sizeof a) || (type == SOCK_STREAM && listen(fd, 5)) ||
		     getsockname(fd, (struct sockaddr *)&a, &n));
	*out_port = ntohs(a.sin_port);
	return fd;
}

static void knock(uint16_t port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
	datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(sendto(datagrams, "x", 1, 0, (struct sockaddr *)&a, sizeof a), 1);
}

static void no_frames(struct chan *c, struct frame *f)
{
	(void)c;
	(void)f;
}

static void no_close(struct chan *c)
{
	(void)c;
}

static uint16_t dns_port;

static int set_up(void **state)
{
	struct err e;
	uint16_t port;
	int sv[2];
	(void)state;
	memset(&cell, 0, sizeof cell);
	memset(&gate, 0, sizeof gate);
	assert_false(loop_init(&cell.loop, &e) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	chan_init(&cell.init, sv[0]);
	cell.init.on_frame = no_frames;
	cell.init.on_close = no_close;
	assert_false(chan_attach(&cell.init, &cell.loop, &e));
	chan_init(&far_init, sv[1]);
	cell.stage = CELL_UP;
	memcpy(dir, "/tmp/skep-gate-XXXXXX", 22);
	assert_non_null(mkdtemp(dir));
	cell.sandbox_dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_false(journal_open(&cell.journal, cell.sandbox_dir, &e));
	struct net_sockets s = NET_SOCKETS_NONE;
	s.tcp = bound(SOCK_STREAM, &port);
	s.dns_tcp = bound(SOCK_STREAM, &port);
	s.dns_udp = bound(SOCK_DGRAM, &dns_port);
	gate.program = self_path;
	assert_int_equal(gate_init(&gate, &cell, &s, &e), 0);
	assert_int_equal(s.tcp, -1);
	return 0;
}

static void run_loop(uint64_t ms);

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	gate_end(&gate, &(struct net_sockets){0});
	gate_end(&gate, &(struct net_sockets){0});
	run_loop(100); // the child is reaped from there
	journal_close(&cell.journal);
	close_fd(&cell.sandbox_dir);
	close_fd(&datagrams);
	chan_close(&cell.init);
	chan_close(&far_init);
	loop_done(&cell.loop);
	assert_int_equal(fs_remove_tree(AT_FDCWD, dir, &e), 0);
	return 0;
}

static const char *journal_text(struct buf *b)
{
	struct err e;
	buf_clear(b);
	assert_false(fs_read(cell.sandbox_dir, "journal", b, &e));
	return buf_cstr(b);
}

static void on_give_up(struct timer *t)
{
	(void)t;
	loop_stop(&cell.loop);
}

static const char *awaited;

static void on_look(struct timer *t)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (strstr(journal_text(&b), awaited))
		loop_stop(&cell.loop);
	else
		timer_set(&cell.loop, t, 5);
}

static void run_loop(uint64_t ms)
{
	struct err e;
	give_up.fn = on_give_up;
	timer_set(&cell.loop, &give_up, ms);
	cell.loop.stop = false;
	assert_false(loop_run(&cell.loop, &e));
	timer_clear(&cell.loop, &give_up);
}

static bool happens(const char *text)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	awaited = text;
	once.fn = on_look;
	timer_set(&cell.loop, &once, 1);
	run_loop(5000);
	timer_clear(&cell.loop, &once);
	return strstr(journal_text(&b), text);
}

static bool happened(const char *text)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	run_loop(50);
	return strstr(journal_text(&b), text);
}

static void run_until(const bool *flag)
{
	for (int i = 0; i < 500 && !*flag; i++)
		run_loop(10);
}

// --- tests ---

static void test_starts_when_asked(void **state)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	(void)state;
	assert_true(gate.chan.fd < 0);
	knock(dns_port);
	assert_true(happens("datagram.test"));
	assert_true(gate.serving);
	assert_true(happens("limited.test"));
	assert_true(happens("no.test")); // nobody is attached: the question was answered at once
	assert_true(happens("\"verdict\":\"deny\""));
	gate_end(&gate, &(struct net_sockets){0});
	const char *text = journal_text(&b);
	assert_non_null(strstr(text, "last.test")); // what it says at its end still counts
	assert_null(strstr(text, "forged.test"));
	assert_null(strstr(text, "author.test"));
	assert_null(strstr(text, "type.test"));
	assert_null(strstr(text, "somebody"));
}

static void test_asks_inside(void **state)
{
	struct frame f;
	struct err e;
	auto_buf struct buf b = BUF_INIT(256);
	(void)state;
	knock(dns_port);
	assert_true(happens("no.test"));
	assert_int_equal(chan_recv(&far_init, &f, &e), 0);
	assert_int_equal(f.type, M_WHO);
	assert_int_equal(f.id, 9);
	wire_u32(&b, 12);
	wire_str(&b, "");
	wire_str(&b, "curl");
	gate_who(&gate, &(struct frame){.type = M_WHO, .id = 9, .p = (uint8_t *)b.p, .n = b.n, .fd = -1});
	assert_true(happens("who.test"));
}

static void test_terminal_answers(void **state)
{
	static struct client cl;
	static struct sx x;
	static const uint8_t yes[] = {VERDICT_ALLOW, SCOPE_SANDBOX}, nonsense[] = {VERDICT_ASK, SCOPE_ONCE};
	struct frame f, answer = {.type = M_ANSWER, .id = 7, .p = yes, .n = 2, .fd = -1};
	struct chan terminal;
	struct err e;
	int sv[2];
	(void)state;
	assert_false(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	x = (struct sx){.cell = &cell, .spec.tty = true};
	cl = (struct client){.cell = &cell, .exec = &x, .greeted = true};
	chan_init(&cl.chan, sv[0]);
	chan_init(&terminal, sv[1]);
	cell.clients = &cl;
	knock(dns_port);
	assert_true(happens("datagram.test"));
	for (int i = 0; i < 100 && !gate.n_asks; i++)
		run_loop(10);
	assert_int_equal(gate.n_asks, 1);
	assert_int_equal(chan_recv(&terminal, &f, &e), 0);
	assert_int_equal(f.type, M_ASK);
	assert_int_equal(f.id, 7);
	gate_answer(&gate, &(struct frame){.type = M_ANSWER, .id = 8, .p = yes, .n = 2, .fd = -1}, &cl); // of nothing
	gate_answer(&gate, &(struct frame){.type = M_ANSWER, .id = 7, .p = nonsense, .n = 2, .fd = -1}, &cl);
	assert_int_equal(gate.n_asks, 1);
	gate_answer(&gate, &answer, &cl);
	gate_answer(&gate, &answer, &cl); // too late
	assert_int_equal(gate.n_asks, 0);
	assert_true(happens("yes.test"));
	assert_true(happens("\"scope\":\"sandbox\""));
	assert_false(happened("no.test"));
	cell.clients = NULL;
	chan_close(&cl.chan);
	chan_close(&terminal);
}

static void test_policy(void **state)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct err e;
	(void)state;
	struct frame bad = {.type = M_POLICY, .p = (const uint8_t *)"x", .n = 1, .fd = -1};
	assert_int_equal(gate_policy(&gate, &bad, &e), -1);
	knock(dns_port);
	assert_true(happens("no.test"));
	policy_write(&b, &(struct policy){.ask = true});
	for (int i = 0; i < 3; i++)
		wire_str(&b, ""); // resolver, CA certificate, further CAs
	struct frame good = {.type = M_POLICY, .p = (const uint8_t *)b.p, .n = b.n, .fd = -1};
	assert_int_equal(gate_policy(&gate, &good, &e), 0);
	assert_true(happens("policy.test"));
	assert_true(happens("secrets.test")); // without any: those it had are gone
	pid_t before = gate.process->pid;
	char resolver[] = "127.0.0.1:5353";
	gate_set(&gate, &(struct cell_net){.resolver = resolver}, -1); // another resolver: another gate
	assert_int_equal(gate.chan.fd, -1);
	close_fd(&datagrams);
	knock(dns_port);
	run_until(&gate.serving);
	assert_true(gate.serving && gate.process->pid != before);
}

static void test_stays_closed(void **state)
{
	(void)state;
	memcpy(cell.spec.sandbox, "dies", 5);
	knock(dns_port);
	assert_true(happens("\"what\":\"gate\""));
	assert_true(gate.shut);
	assert_int_equal(gate.n_starts, GATE_STARTS);
	for (int i = 0; i < GATE_SOCKETS; i++)
		assert_int_equal(gate.listen[i].fd, -1);
}

static void test_killed(void **state)
{
	(void)state;
	knock(dns_port);
	assert_true(happens("no.test"));
	kill(gate.process->pid, SIGKILL);
	close_fd(&datagrams);
	for (int i = 0; i < 500 && gate.chan.fd >= 0; i++)
		run_loop(10);
	assert_int_equal(gate.chan.fd, -1);
	assert_false(gate.shut);
	knock(dns_port);
	run_until(&gate.serving);
	assert_true(gate.serving); // again
	assert_int_equal(gate.n_starts, 2);
}

static void test_no_program(void **state)
{
	(void)state;
	gate.program = "/nonexistent/skep-gate";
	knock(dns_port);
	assert_true(happens("\"what\":\"gate\""));
	assert_true(happens("No such file"));
}

static void test_members(void **state)
{
	static const char *const fit[] = {"", "\"a\":1", "\"a\":{\"by\":[1,-2.5e3,true,null,{}]},\"b\":\"\\u00e9\\n\"",
					  "\"a\":[]", "\"a\":0"};
	static const char *const unfit[] = {"a",
					    "\"a\"",
					    "\"a\":",
					    "\"a\":1,",
					    "\"a\":1}",
					    "\"a\":01",
					    "\"a\":.5",
					    "\"a\":1 ",
					    "\"a\":\"\n\"",
					    "\"a\":tru",
					    "\"type\":\"x\"",
					    "\"t\\u0079pe\":1",
					    "\"a\":[[[[[[[[[[1]]]]]]]]]]",
					    "\"a\":\"\\x\"",
					    "\"a\":[1}",
					    "\"a\":-",
					    "\"a\":\"",
					    "\"seq\":1",
					    "\"a\":1e",
					    "\"a\":{\"b\"}"};
	(void)state;
	for (size_t i = 0; i < countof(fit); i++)
		assert_true(members_are_fit(fit[i], strlen(fit[i])));
	for (size_t i = 0; i < countof(unfit); i++)
		assert_false(members_are_fit(unfit[i], strlen(unfit[i])));
}

static void test_packets(void **state)
{
	static const uint8_t v4[] = {0x45, 0, 0, 40, 0, 0, 0x40, 0, 64,	  6,	0,    0,
				     127,  0, 0, 1,  8, 8, 4,	 4, 0x30, 0x39, 0x01, 0xbb};
	static const uint8_t v6[] = {0x60, 0, 0, 0, 0, 8, 17, 64, 0, 0,	   0,	 0,    0,    0, 0,
				     0,	   0, 0, 0, 0, 0, 0,  0,  1, 0x20, 1,	 0xd,  0xb8, 0, 0,
				     0,	   0, 0, 0, 0, 0, 0,  0,  0, 1,	   0x30, 0x39, 0,    53};
	struct refused_packet k;
	uint8_t fragment[sizeof v4];
	(void)state;
	assert_true(refused_read(v4, sizeof v4, &k));
	assert_string_equal(k.address, "8.8.4.4");
	assert_int_equal(k.port, 443);
	assert_int_equal(k.proto, 6);
	assert_true(refused_read(v6, sizeof v6, &k));
	assert_string_equal(k.address, "2001:db8::1");
	assert_int_equal(k.port, 53);
	memcpy(fragment, v4, sizeof v4);
	fragment[7] = 9;
	assert_true(refused_read(fragment, sizeof fragment, &k) && !k.port);
	for (size_t n = 0; n < 20; n++)
		assert_false(refused_read(v4, n, &k));
	for (size_t n = 0; n < 40; n++)
		assert_false(refused_read(v6, n, &k));
	assert_true(refused_read(v4, 22, &k) && !k.port);
	fragment[0] = 0x41;
	assert_false(refused_read(fragment, sizeof fragment, &k));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_packets),
		cmocka_unit_test_setup_teardown(test_starts_when_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_asks_inside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_terminal_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_policy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stays_closed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_program, set_up, tear_down),
	};
	if (argc == 1 && str_is(str_of(argv[0]), "skep-gate"))
		_exit(play());
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
	if (n <= 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
