// SPDX-License-Identifier: Apache-2.0
// The native backend against a nursery and cells played by this test, in the same loop, over socket pairs.
#include "backend/native_int.h"

#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/msg.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];
static struct loop loop;
static struct backend *be;
static struct chan nursery;		   // the other end of channel N
static struct chan slots[128];		   // the other ends of channel K
static int n_slots, n_specs, n_closed, wants_warm, wants_cold, greetings;
static int lent, given_back, expected; // identities
static struct chan *spec_at;
static uint32_t last_spec, remove_id;
static bool refuse_slots;
static char *removed;

static void check_timeout(struct timer *t)
{
	(void)t;
	loop_stop(&loop);
}

static void turn(uint64_t ms)
{
	struct err e;
	struct timer t = {.fn = check_timeout};
	timer_set(&loop, &t, ms);
	assert_int_equal(loop_run(&loop, &e), 0);
}

// What was sent has come, on however slow a machine.
static void turn_some(void)
{
	for (int i = 0; i < 5; i++)
		turn(10);
}

// The pool is filled a few slots at a time, with pauses.
static void turn_until(const int *count, int n)
{
	for (int i = 0; i < 1000 && *count < n; i++)
		turn(10);
	assert_int_equal(*count, n);
}

static void send_err(struct chan *c, uint32_t id, enum err_kind kind, const char *msg)
{
	auto_buf struct buf b = BUF_INIT(1024);
	wire_u32(&b, kind);
	wire_u32(&b, 0);
	wire_str(&b, msg);
	chan_send_buf(c, M_ERR, id, &b);
}

static void on_slot_close(struct chan *c)
{
	n_closed++;
	chan_close(c);
}

static void on_slot_frame(struct chan *c, struct frame *f)
{
	if (f->type == M_SPEC) {
		last_spec = f->id;
		spec_at = c;
		n_specs++;
	} else if (f->type == M_EXPECT) {
		expected++;
	} else if (f->type == M_KILL)
		send_err(c, f->id, ERR_NOT_FOUND, "no such exec");
	else if (f->type == M_MEMBERS)
		chan_send(c, M_MEMBERS, 0, f->id, "\3\0\0\0", 4);
	else if (f->type == M_TICKET)
		chan_send(c, M_OK, 0, f->id, NULL, 0);
}

static void give_slot(uint32_t id, const uint8_t *place, size_t n)
{
	int sv[2];
	struct err e;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_u8(&b, PROFILE_USER);
	buf_add(&b, place, n);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	struct chan *c = &slots[n_slots++];
	chan_init(c, sv[0]);
	c->on_frame = on_slot_frame;
	c->on_close = on_slot_close;
	assert_int_equal(chan_attach(c, &loop, &e), 0);
	chan_send_fd(&nursery, M_SLOT, id, b.p, b.n, sv[1]);
	close(sv[1]);
}

static void on_nursery_frame(struct chan *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	if (f->type == M_NURSERY) {
		greetings++;
	} else if (f->type == M_WANT) {
		bool warm = f->p[1];
		*(warm ? &wants_warm : &wants_cold) += 1;
		if (refuse_slots)
			send_err(c, f->id, ERR_UNSUPPORTED, "no user namespaces here");
		else
			give_slot(f->id, f->p + 2, f->n - 2);
	} else if (f->type == M_LAYER) {
		struct layer_op op;
		struct err e;
		auto_buf struct buf b = BUF_INIT(64);
		assert_int_equal(layer_op_read(&w, &op, &e), 0);
		layer_result_write(&b, &(struct layer_result){.bytes = 5, .files = strv_len(op.from)});
		if (op.verb == LAYER_SYNC)
			send_err(c, f->id, ERR_SYSTEM, "disk full");
		else
			chan_send_buf(c, M_OK, f->id, &b);
		layer_op_done(&op);
	} else if (f->type == M_REMOVE) {
		char **v = wire_get_strv(&w);
		free(removed);
		removed = xstrdup(v[0]);
		remove_id = f->id;
		strv_free(v);
		chan_send(c, M_OK, 0, f->id, NULL, 0);
	}
}

static void on_nursery_close(struct chan *c)
{
	chan_close(c);
}

static int set_up(void **state)
{
	int sv[2];
	struct err e;
	(void)state;
	n_slots = n_specs = n_closed = wants_warm = wants_cold = greetings = lent = given_back = expected = 0;
	spec_at = NULL;
	refuse_slots = false;
	if (fmt_to(dir, sizeof dir, "/tmp/skep-native-XXXXXX") || !mkdtemp(dir) || loop_init(&loop, &e))
		return -1;
	auto_free char *cells = xasprintf("%s/run/cells", dir);
	if (fs_mkdirs(AT_FDCWD, cells, 0700, &e) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return -1;
	chan_init(&nursery, sv[0]);
	nursery.on_frame = on_nursery_frame;
	nursery.on_close = on_nursery_close;
	struct native_config cfg = {dir, "/home/ann", "/nonexistent/skep-cell", sv[1]};
	be = backend_native_new(&loop, &cfg, &e);
	return !be || chan_attach(&nursery, &loop, &e) ? -1 : 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	be->ops->free(be);
	chan_close(&nursery);
	for (int i = 0; i < n_slots; i++)
		chan_close(&slots[i]);
	turn(1);
	loop.timers = NULL;
	loop_done(&loop);
	free(removed);
	removed = NULL;
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

struct watched {
	struct cell_watcher w;
	struct cell *cell;
	int ups, starts, exits, gones;
	struct err failed;
	uint32_t status;
	struct cell_end end;
	char reason[64];
};

static struct watched *of(struct cell_watcher *w)
{
	return container_of(w, struct watched, w);
}

static void up(struct cell_watcher *w, struct cell_up *u, const struct err *e)
{
	of(w)->ups++;
	if (e)
		of(w)->failed = *e;
	else
		assert_true(u->pid == 77 && u->seq == 5);
}

static void started(struct cell_watcher *w, const char *exec, uint32_t pid)
{
	of(w)->starts++;
	assert_true(!strcmp(exec, "x1") && pid == 9);
}

static void exited(struct cell_watcher *w, const char *exec, const struct exec_result *r)
{
	(void)exec;
	of(w)->exits++;
	of(w)->status = r->status;
}

static void gone(struct cell_watcher *w, const struct cell_end *end)
{
	of(w)->gones++;
	of(w)->end = *end;
	assert_int_equal(fmt_to(of(w)->reason, sizeof of(w)->reason, "%s", end->reason), 0);
}

static struct watched watched(void)
{
	return (struct watched){.w = {.up = up, .started = started, .exited = exited, .gone = gone}};
}

static struct cell *start_as(struct watched *w, const char *id, enum profile p, bool fresh)
{
	char empty[] = "", name[ID_SIZE], layer[128], *none[] = {NULL};
	assert_int_equal(fmt_to(layer, sizeof layer, "%s/layer", dir), 0);
	assert_int_equal(fmt_to(name, sizeof name, "%s", id), 0);
	struct cell_spec s = {.hostname = name, .profile = p, .skep_home = empty, .sandbox_dir = empty,
			      .layer = layer, .lowers = none, .ws_path = empty, .home = empty};
	memcpy(s.sandbox, name, sizeof name);
	w->cell = be->ops->start(be, &s, fresh, &w->w);
	assert_int_equal(w->ups, 0); // never from inside the call
	return w->cell;
}

static struct cell *start(struct watched *w, enum profile p, bool fresh)
{
	return start_as(w, "s1", p, fresh);
}

static void answer_up(struct chan *c)
{
	auto_buf struct buf b = BUF_INIT(1024);
	struct isolation iso = {.landlock = 3};
	wire_u32(&b, 77);
	wire_u64(&b, 123);
	wire_u8(&b, 0);
	isolation_write(&b, &iso);
	wire_u64(&b, 5);
	wire_str(&b, "abcd");
	chan_send_buf(c, M_UP, last_spec, &b);
}

static struct chan *bring_up(struct watched *w)
{
	turn(20);
	start(w, PROFILE_USER, true);
	turn(20);
	struct chan *c = spec_at;
	assert_non_null(c);
	answer_up(c);
	turn(20);
	assert_int_equal(w->ups, 1);
	assert_int_equal(w->failed.kind, ERR_NONE);
	return c;
}

static void keeps_a_pool_and_refills_it(void **state)
{
	(void)state;
	struct watched w = watched();
	turn(20);
	assert_int_equal(greetings, 1);
	turn_until(&wants_warm, WARM_MIN);
	bring_up(&w);
	turn_until(&wants_warm, 2 * WARM_MIN); // a new place: slots made for it
	assert_int_equal(wants_cold, 0);
}

// Slots that were made before anybody knew where.
static void slots_for_no_place_go(void **state)
{
	(void)state;
	struct watched w = watched();
	turn_until(&wants_warm, WARM_MIN);
	bring_up(&w);
	turn_until(&n_closed, WARM_MIN - 1); // one was taken
	turn(30);
	assert_int_equal(n_closed, WARM_MIN - 1);
}

static void start_many(struct watched *w, int n)
{
	for (int i = 0; i < n; i++) {
		char id[ID_SIZE];
		assert_int_equal(fmt_to(id, sizeof id, "s%015d", i), 0);
		w[i] = watched();
		start_as(&w[i], id, PROFILE_USER, true);
	}
}

static void starts_that_hang_hold_up_nobody(void **state)
{
	(void)state;
	struct watched w[40];
	turn_until(&wants_warm, WARM_MIN);
	start_many(w, countof(w));
	turn_until(&n_specs, countof(w)); // none of them is ever up
}

static void send_gone(struct chan *c, uint8_t again)
{
	auto_buf struct buf b = BUF_INIT(1024);
	wire_str(&b, "exec ended");
	wire_u32(&b, 0);
	wire_u8(&b, 1);
	wire_u64(&b, 8);
	wire_str(&b, "beef");
	chan_send(c, M_GONE, again, 0, b.p, b.n);
	chan_send(c, M_AGAIN, 0, 0, NULL, 0);
}

// Each is up at once, ends at once and comes back at once.
static void on_quick_frame(struct chan *c, struct frame *f)
{
	on_slot_frame(c, f);
	if (f->type == M_SPEC) {
		answer_up(c);
		send_gone(c, 1);
	}
}

static void cells_that_come_back_serve_those_who_wait(void **state)
{
	(void)state;
	struct watched first = watched(), w[40];
	bring_up(&first);
	turn_until(&wants_warm, 2 * WARM_MIN);
	for (int i = 0; i < n_slots; i++)
		slots[i].on_frame = on_quick_frame;
	n_specs = 0;
	start_many(w, countof(w));
	turn_until(&n_specs, countof(w));
	assert_in_range(wants_warm, 2 * WARM_MIN, 4 * WARM_MIN); // not one for each
	for (size_t i = 0; i < countof(w); i++)
		assert_true(w[i].ups == 1 && w[i].failed.kind == ERR_NONE && w[i].gones == 1);
}

static void root_and_used_layers_get_cold_slots(void **state)
{
	(void)state;
	struct watched a = watched(), b = watched();
	turn(20);
	start(&a, PROFILE_ROOT, true);
	start(&b, PROFILE_USER, false);
	turn(20);
	assert_int_equal(wants_cold, 2);
	turn_until(&wants_warm, WARM_MIN);
	auto_free char *work = xasprintf("%s/layer/work", dir);
	assert_true(fs_exists(AT_FDCWD, work)); // made for the fresh one
}

static void tells_what_happens(void **state)
{
	(void)state;
	struct watched w = watched();
	struct chan *c = bring_up(&w);
	auto_buf struct buf b = BUF_INIT(1024), x = BUF_INIT(1024), g = BUF_INIT(1024);
	struct exec_result r = {.status = 42};
	wire_str(&b, "x1");
	wire_u32(&b, 9);
	chan_send_buf(c, M_STARTED, 0, &b);
	wire_str(&x, "x1");
	exec_result_write(&x, &r);
	chan_send_buf(c, M_EXITED, 0, &x);
	wire_str(&g, "exec ended");
	wire_u32(&g, UINT32_MAX);
	wire_u8(&g, 1);
	wire_u64(&g, 8);
	wire_str(&g, "beef");
	chan_send_buf(c, M_GONE, 0, &g);
	turn(20);
	assert_true(w.starts == 1 && w.exits == 1 && w.status == 42 && w.gones == 1);
	assert_true(!w.end.died && w.end.removed && w.end.pending == -1 && w.end.seq == 8 && !strcmp(w.end.head, "beef"));
	assert_string_equal(w.reason, "exec ended");
}

static void note(void *ctx, const struct err *e)
{
	*(enum err_kind *)ctx = e ? e->kind : ERR_NONE;
}

static void answers_requests_by_id(void **state)
{
	(void)state;
	struct watched w = watched();
	enum err_kind killed = ERR_BUG, ticket = ERR_BUG;
	bring_up(&w);
	be->ops->kill(w.cell, "x9", 15, (struct reply){note, &killed});
	be->ops->ticket(w.cell, "x1", "t", (struct reply){note, &ticket});
	turn(20);
	assert_int_equal(killed, ERR_NOT_FOUND);
	assert_int_equal(ticket, ERR_NONE);
}

static void a_cell_that_dies_is_reported_and_fails_its_requests(void **state)
{
	(void)state;
	struct watched w = watched();
	enum err_kind paused = ERR_BUG;
	struct chan *c = bring_up(&w);
	be->ops->pause(w.cell, true, (struct reply){note, &paused});
	turn(5);
	chan_close(c);
	turn(20);
	assert_int_equal(paused, ERR_UNAVAILABLE);
	assert_true(w.gones == 1 && w.end.died && w.end.pending == -1);
}

static void a_refused_spec_is_the_callers_error(void **state)
{
	(void)state;
	struct watched w = watched();
	turn(20);
	start(&w, PROFILE_USER, true);
	turn(20);
	send_err(spec_at, last_spec, ERR_DENIED, "strict");
	turn(20);
	assert_true(w.ups == 1 && w.failed.kind == ERR_DENIED && !strcmp(w.failed.msg, "strict"));
	assert_int_equal(w.gones, 0);
}

static void a_dead_warm_slot_is_not_used(void **state)
{
	(void)state;
	struct watched w = watched();
	turn(20);
	chan_close(&slots[0]);
	bring_up(&w);
	assert_true(w.ups == 1 && w.failed.kind == ERR_NONE);
}

static void a_nursery_that_can_give_none_says_why(void **state)
{
	(void)state;
	struct watched w = watched();
	refuse_slots = true;
	start(&w, PROFILE_USER, true);
	turn(50);
	assert_true(w.ups == 1 && w.failed.kind == ERR_UNSUPPORTED);
}

static void removal_goes_below_the_home(void **state)
{
	(void)state;
	enum err_kind done = ERR_BUG;
	char layer[] = "layers/l1", *dirs[] = {layer, NULL};
	be->ops->remove(be, dirs, (struct reply){note, &done});
	turn(20);
	auto_free char *want = xasprintf("%s/layers/l1", dir);
	assert_int_equal(done, ERR_NONE);
	assert_string_equal(removed, want);
}

static void note_layer(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct layer_result *out = ctx;
	*out = r ? *r : (struct layer_result){.shared = e->kind};
}

static void note_count(void *ctx, const struct err *e, uint32_t count)
{
	*(uint32_t *)ctx = e ? UINT32_MAX : count;
}

static void work_on_layers_is_answered(void **state)
{
	(void)state;
	struct layer_result merged = {0}, synced = {0};
	char a[] = "a", b[] = "b", *from[] = {a, b, NULL}, *one[] = {a, NULL};
	be->ops->layer(be, &(struct layer_op){.verb = LAYER_MERGE, .from = from, .to = "m"}, (struct layer_reply){note_layer, &merged});
	be->ops->layer(be, &(struct layer_op){.verb = LAYER_SYNC, .from = one}, (struct layer_reply){note_layer, &synced});
	assert_int_equal(merged.bytes, 0); // never from inside the call
	turn(20);
	assert_true(merged.bytes == 5 && merged.files == 2);
	assert_int_equal(synced.shared, ERR_SYSTEM);
}

static void processes_are_counted(void **state)
{
	(void)state;
	struct watched w = watched();
	uint32_t count = 0;
	bring_up(&w);
	be->ops->members(w.cell, (struct count_reply){note_count, &count});
	turn(20);
	assert_int_equal(count, 3);
}

static void adopting_what_is_not_there_fails(void **state)
{
	(void)state;
	struct watched w = watched();
	w.cell = be->ops->adopt(be, "s1", "key", &w.w);
	assert_int_equal(w.ups, 0);
	turn(20);
	assert_true(w.ups == 1 && w.failed.kind == ERR_SYSTEM);
}

static bool lend(void *ctx, struct identity *out)
{
	(void)ctx;
	*out = (struct identity){.machine_id = "m"};
	return !fmt_to(out->id, sizeof out->id, "s%015d", ++lent);
}

static void give_back(void *ctx, const struct identity *i)
{
	(void)ctx;
	(void)i;
	given_back++;
}

static void what_will_probably_come_is_built_ahead(void **state)
{
	(void)state;
	struct watched w = watched(), other = watched();
	struct identity a, b;
	char place[] = "/another/place";
	be->lender = (struct lender){lend, give_back, NULL};
	turn(20);
	const struct cell_spec like = {.profile = PROFILE_USER}, elsewhere = {.base = place};
	assert_false(be->ops->expects(be, &like, &a)); // nothing was ever started
	bring_up(&w);
	turn_until(&expected, WARM_MIN);
	assert_int_equal(lent, WARM_MIN);
	assert_false(be->ops->expects(be, &elsewhere, &a));
	assert_true(be->ops->expects(be, &like, &a));
	assert_true(be->ops->expects(be, &like, &b));
	assert_string_not_equal(a.id, b.id);
	// the one gets what was built for it
	start_as(&other, a.id, PROFILE_USER, true);
	turn(5);
	answer_up(spec_at);
	turn(5);
	assert_int_equal(other.ups, 1);
	// the other never comes: its slot goes, and its identity is the caller's
	be->ops->forsake(be, b.id);
	assert_int_equal(given_back, 0);
	turn_until(&lent, WARM_MIN + 2); // the pool is full again
	// one that is of another kind takes a slot all the same, and what that was built for is free
	struct watched odd = watched();
	start_as(&odd, "s1", PROFILE_USER, true);
	assert_int_equal(given_back, 1);
	be->lender = (struct lender){0};
}

static struct cell_spec stacked_spec(enum profile p, const char *id, char *layer, char **lowers)
{
	static char empty[] = "";
	struct cell_spec s = {.profile = p, .skep_home = empty, .sandbox_dir = empty, .layer = layer, .lowers = lowers, .ws_path = empty, .home = empty};
	memcpy(s.sandbox, id, strlen(id) + 1);
	return s;
}

// A bring-up with whatever slot the backend has, or asks for.
static struct chan *bring_up_as(struct watched *w, struct cell_spec *s)
{
	int before = n_specs;
	s->hostname = s->sandbox;
	w->cell = be->ops->start(be, s, true, &w->w);
	turn_until(&n_specs, before + 1);
	answer_up(spec_at);
	turn_until(&w->ups, 1);
	assert_int_equal(w->failed.kind, ERR_NONE);
	return spec_at;
}

static void kinds_without_a_mold_are_built_ahead(void **state)
{
	(void)state;
	struct watched w[4] = {watched(), watched(), watched(), watched()};
	struct identity a = {0}, b;
	char layer[128], *none[] = {NULL}, image[] = "/images/i1";
	assert_int_equal(fmt_to(layer, sizeof layer, "%s/layer", dir), 0);
	be->lender = (struct lender){lend, give_back, NULL};
	turn_until(&wants_warm, WARM_MIN);
	struct cell_spec root = stacked_spec(PROFILE_ROOT, "s1", layer, none), other = root;
	assert_false(be->ops->expects(be, &root, &a));
	bring_up_as(&w[0], &root);
	turn_until(&wants_cold, 3); // its own, one that is told what to expect, one for another kind
	turn_until(&expected, 1);
	other.nested = true;
	assert_false(be->ops->expects(be, &other, &b));
	other.nested = false;
	other.image = image;
	assert_false(be->ops->expects(be, &other, &b));
	assert_true(be->ops->expects(be, &root, &a));
	assert_false(be->ops->expects(be, &root, &b)); // there is but one
	struct cell_spec same = stacked_spec(PROFILE_ROOT, a.id, layer, none);
	struct chan *built = bring_up_as(&w[1], &same);
	turn_until(&expected, 3); // two of a kind that is started again and again
	// what comes with a promised identity and is another kind never gets the slot that was built
	assert_true(be->ops->expects(be, &root, &a));
	other = stacked_spec(PROFILE_ROOT, a.id, layer, none);
	other.nested = true;
	int closed = n_closed;
	struct chan *cold = bring_up_as(&w[2], &other);
	turn_until(&n_closed, closed + 1);
	assert_ptr_not_equal(cold, built);
	assert_int_equal(given_back, 0);
	be->lender = (struct lender){0};
}

static void a_stack_of_layers_is_learned_the_second_time(void **state)
{
	(void)state;
	struct watched w[2] = {watched(), watched()};
	struct identity a;
	char layer[128], lower[] = "/layers/l1", *lowers[] = {lower, NULL};
	assert_int_equal(fmt_to(layer, sizeof layer, "%s/layer", dir), 0);
	be->lender = (struct lender){lend, give_back, NULL};
	turn_until(&wants_warm, WARM_MIN);
	struct cell_spec s = stacked_spec(PROFILE_USER, "s1", layer, lowers), t = stacked_spec(PROFILE_USER, "s2", layer, lowers);
	bring_up_as(&w[0], &s);
	turn_until(&wants_cold, 2); // the second waits for whatever comes
	turn(200);
	assert_int_equal(expected, 0);
	bring_up_as(&w[1], &t);
	turn_until(&expected, 2);
	assert_true(be->ops->expects(be, &s, &a));
	be->lender = (struct lender){0};
}

static void a_fork_is_built_before_it_is_started(void **state)
{
	(void)state;
	struct watched w[2] = {watched(), watched()};
	char layer[128], lower[] = "/layers/l1", *lowers[] = {lower, NULL}, *others[] = {layer, NULL};
	assert_int_equal(fmt_to(layer, sizeof layer, "%s/layer", dir), 0);
	be->lender = (struct lender){lend, give_back, NULL};
	turn_until(&wants_warm, WARM_MIN);
	struct cell_spec s = stacked_spec(PROFILE_USER, "s1", layer, lowers), fork = stacked_spec(PROFILE_USER, "s2", layer, others);
	bring_up_as(&w[0], &s);
	turn_until(&wants_cold, 2);
	turn_some();
	fork.hostname = fork.sandbox;
	be->ops->prepare(be, &fork);
	turn_until(&expected, 1);
	int specs = n_specs;
	bring_up_as(&w[1], &fork);
	assert_int_equal(n_specs, specs + 1);
	// a fork that goes takes its slot along; nobody's identity is given back
	fork = stacked_spec(PROFILE_USER, "s3", layer, others);
	turn_until(&wants_cold, 3);
	turn_some();
	fork.hostname = fork.sandbox;
	be->ops->prepare(be, &fork);
	turn_until(&expected, 2);
	int closed = n_closed;
	be->ops->forsake(be, "s3");
	turn_until(&n_closed, closed + 1);
	assert_int_equal(lent, 0);
	assert_int_equal(given_back, 0);
	be->lender = (struct lender){0};
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(keeps_a_pool_and_refills_it),
		T(slots_for_no_place_go),
		T(starts_that_hang_hold_up_nobody),
		T(cells_that_come_back_serve_those_who_wait),
		T(root_and_used_layers_get_cold_slots),
		T(tells_what_happens),
		T(answers_requests_by_id),
		T(a_cell_that_dies_is_reported_and_fails_its_requests),
		T(a_refused_spec_is_the_callers_error),
		T(a_dead_warm_slot_is_not_used),
		T(a_nursery_that_can_give_none_says_why),
		T(removal_goes_below_the_home),
		T(adopting_what_is_not_there_fails),
		T(work_on_layers_is_answered),
		T(processes_are_counted),
		T(what_will_probably_come_is_built_ahead),
		T(kinds_without_a_mold_are_built_ahead),
		T(a_stack_of_layers_is_learned_the_second_time),
		T(a_fork_is_built_before_it_is_started),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
