// SPDX-License-Identifier: Apache-2.0
#include "isolate/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BITS_NONE                                                                                        \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | \
	 SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)
// setuid away from 0 must still drop what is kept, so the fix-up stays on
#define BITS_ROOT (SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int wanted_bits(uint64_t keep)
{
	return keep ? BITS_ROOT : BITS_NONE;
}

// EINVAL beyond the last capability this kernel knows: the loop needs no other way to find it. A drop that is
// refused is fine where there is nothing to drop; looking first would double the calls.
int caps_drop_bounding(uint64_t keep, struct err *e)
{
	for (unsigned c = 0; c < 64; c++) {
		int has = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
		if (!has || (has > 0 && (keep >> c & 1 || !prctl(PR_CAPBSET_DROP, c, 0, 0, 0))))
			continue;
		if (has < 0 && errno == EINVAL && c)
			return 0;
		if (has)
			return err_set(e, ERR_DENIED, "may not drop capability %u from the bounding set", c);
	}
	return 0;
}

static int set_securebits(uint64_t keep, struct err *e)
{
	int have = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), want = wanted_bits(keep);
	if (have == want || !prctl(PR_SET_SECUREBITS, want, 0, 0, 0))
		return 0;
	return err_sys(e, "set the securebits");
}

int caps_drop_own(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {
		{(uint32_t)keep, (uint32_t)keep, 0},
		{(uint32_t)(keep >> 32), (uint32_t)(keep >> 32), 0},
	};
	if (set_securebits(keep, e))
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return err_sys(e, "clear the ambient set");
	if (syscall(SYS_capset, &h, d))
		return err_sys(e, "set the capabilities");
	return 0;
}

int caps_drop_all(uint64_t keep, struct err *e)
{
	return caps_drop_bounding(keep, e) || caps_drop_own(keep, e) ? -1 : 0;
}

int caps_no_new_privs(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_sys(e, "set no_new_privs");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(e, ERR_DENIED, "no_new_privs did not take effect");
	return 0;
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

static int verify_bounding(uint64_t keep, struct err *e)
{
	for (unsigned c = 0; c < 64; c++) {
		int has = prctl(PR_CAPBSET_READ, c, 0, 0, 0);
		if (has < 0 && errno == EINVAL && c)
			return 0;
		if (has < 0 || (has && !(keep >> c & 1)))
			return err_set(e, ERR_DENIED, "capability %u is left in the bounding set", c);
	}
	return 0;
}

int caps_verify(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};
	if (syscall(SYS_capget, &h, d))
		return err_sys(e, "read the capabilities");
	if (pair(d[0].permitted, d[1].permitted) != keep || pair(d[0].effective, d[1].effective) != keep)
		return err_set(e, ERR_DENIED, "capabilities %#llx are in force instead of %#llx",
			       (unsigned long long)pair(d[0].permitted, d[1].permitted), (unsigned long long)keep);
	// the kernel keeps the ambient set within the inheritable one: this is the check of both
	if (d[0].inheritable || d[1].inheritable)
		return err_set(e, ERR_DENIED, "capabilities are left in the inheritable set");
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), want = wanted_bits(keep);
	if (bits < 0 || (bits & want) != want)
		return err_set(e, ERR_DENIED, "securebits %#x are in force instead of %#x", bits, want);
	return verify_bounding(keep, e);
}
