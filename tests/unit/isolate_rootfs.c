// SPDX-License-Identifier: Apache-2.0
// The plans of a cell's file tree, looked at as data: no root, no mount.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "isolate/rootfs.h"
#include <stdlib.h>
#include <string.h>

static struct rootfs_host host(void)
{
	struct rootfs_host h = {.uid = 1000, .gid = 1000};
	rootfs_scan(&h, "/T");
	return h;
}

static struct cell_spec spec(void)
{
	return (struct cell_spec){
		.hostname = xstrdup("box"), .layer = xstrdup("/S/layers/l1"), .base = xstrdup("/home/a/p"),
		.ws_path = xstrdup("/home/a/p"), .home = xstrdup("/home/skep"), .limits = LIMITS_DEFAULT,
	};
}

static const struct mount_op *find(const struct plan *p, enum mount_kind kind, const char *dst)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->ops[i].kind == kind && !strcmp(p->ops[i].dst, dst))
			return &p->ops[i];
	return NULL;
}

static void nothing_of_the_system_is_writable(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct plan p = {0};
	rootfs_system(&h, PROFILE_USER, false, &p);
	rootfs_kernel(false, &p);
	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].kind == MOUNT_BIND || p.ops[i].kind == MOUNT_SHOW)
			assert_false(p.ops[i].flags & MF_WRITE);
	assert_non_null(find(&p, MOUNT_SHOW, "usr"));
	assert_non_null(find(&p, MOUNT_MASK, "proc/kcore"));
	assert_non_null(find(&p, MOUNT_RDONLY, "proc/sys"));
	assert_non_null(find(&p, MOUNT_RDONLY, "proc/pressure"));
	assert_non_null(find(&p, MOUNT_MASK, "nix/var/nix/daemon-socket")); // after the bind: else it would lie below
	assert_true(find(&p, MOUNT_MASK, "usr/local/var/run") > find(&p, MOUNT_SHOW, "usr"));
	plan_done(&p);
	free(h.template);
}

static void overlays_name_no_host_path(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct cell_spec s = spec();
	struct plan p = {0};
	rootfs_cell(&h, &s, SLOT_EMPTY, &p);
	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].kind == MOUNT_OVERLAY) {
			assert_null(strstr(p.ops[i].data, "/home/a"));
			assert_null(strstr(p.ops[i].data, "/S/"));
			assert_non_null(strstr(p.ops[i].data, "userxattr"));
			assert_non_null(strstr(p.ops[i].data, "volatile"));
		}
	assert_non_null(find(&p, MOUNT_OVERLAY, "home/a/p"));
	assert_non_null(find(&p, MOUNT_OVERLAY, "home/skep"));
	cell_spec_done(&s);
	plan_done(&p);
	free(h.template);
}

static void a_slot_leaves_less_to_do(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct cell_spec s = spec();
	struct plan p = {0};
	struct sources src;
	rootfs_cell(&h, &s, SLOT_PLACE, &p);
	assert_null(find(&p, MOUNT_OVERLAY, "home/a/p"));
	assert_null(find(&p, MOUNT_OVERLAY, "home/skep"));
	assert_non_null(find(&p, MOUNT_FILE, ".skep/hostname"));
	rootfs_sources(&h, &s, SLOT_PLACE, &src);
	assert_int_equal(src.n, 0);
	sources_done(&src);
	rootfs_sources(&h, &s, SLOT_LAYER, &src);
	assert_int_equal(src.n, 1);
	assert_string_equal(src.list[0].name, "b");
	assert_int_equal(src.list[0].map, SOURCE_OWNER);
	sources_done(&src);
	cell_spec_done(&s);
	plan_done(&p);
	free(h.template);
}

static void little_memory_means_little_tmp(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct cell_spec s = spec();
	struct plan p = {0};
	s.limits.memory = 256 << 20;
	rootfs_cell(&h, &s, SLOT_PLACE, &p);
	const struct mount_op *tmp = find(&p, MOUNT_RESIZE, "tmp");
	assert_non_null(tmp); // resized, never mounted over: the workspace may lie in it
	assert_non_null(strstr(tmp->data, "size=134217728"));
	cell_spec_done(&s);
	plan_done(&p);
	free(h.template);
}

static void masks_come_after_what_they_mask(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct cell_spec s = spec();
	struct plan p = {0};
	s.n_mounts = 2;
	s.mounts = xcalloc(2, sizeof *s.mounts);
	s.mounts[0] = (struct cell_mount){.src = xstrdup("/home/a/.cargo"), .dst = xstrdup("/home/a/.cargo")};
	s.mounts[1] = (struct cell_mount){.src = xstrdup(""), .dst = xstrdup("/home/a/.cargo/credentials.toml")};
	rootfs_place(&h, &s, &p);
	const struct mount_op *bind = find(&p, MOUNT_SHOW, "home/a/.cargo");
	const struct mount_op *mask = find(&p, MOUNT_MASK, "home/a/.cargo/credentials.toml");
	assert_true(bind && mask && bind < mask);
	assert_false(bind->flags & MF_WRITE);
	cell_spec_done(&s);
	plan_done(&p);
	free(h.template);
}

static void a_whole_stack_fits_one_page_of_options(void **state)
{
	(void)state;
	struct rootfs_host h = host();
	struct cell_spec s = spec();
	struct plan p = {0};
	struct sources src;
	s.profile = PROFILE_ROOT;
	for (int i = 0; i < LIMIT_LAYERS; i++) {
		auto_free char *path = xasprintf("/S/%s/some-rather-long-layer-name-%d", i < 31 ? "layers" : "trees/t", i);
		strv_add(&s.lowers, path);
	}
	rootfs_cell(&h, &s, SLOT_EMPTY, &p);
	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].kind == MOUNT_OVERLAY) {
			assert_true(strlen(p.ops[i].data) < 4000);
			assert_non_null(strstr(p.ops[i].data, ":k31/"));
			assert_ptr_equal(strstr(p.ops[i].data, "lowerdir=k0/"), p.ops[i].data);
		}
	rootfs_sources(&h, &s, SLOT_EMPTY, &src);
	int lowers = 0;
	for (int i = 0; i < src.n; i++)
		if (src.list[i].name[0] == 'k') {
			assert_int_equal(src.list[i].map, ++lowers < LIMIT_LAYERS ? SOURCE_PLAIN : SOURCE_ROOT);
		}
	assert_int_equal(lowers, LIMIT_LAYERS);
	sources_done(&src);
	cell_spec_done(&s);
	plan_done(&p);
	free(h.template);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_the_system_is_writable), cmocka_unit_test(overlays_name_no_host_path),
		cmocka_unit_test(a_slot_leaves_less_to_do),	      cmocka_unit_test(little_memory_means_little_tmp),
		cmocka_unit_test(masks_come_after_what_they_mask), cmocka_unit_test(a_whole_stack_fits_one_page_of_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
