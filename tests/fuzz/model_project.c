// SPDX-License-Identifier: Apache-2.0
// Project and config files: whatever was taken can be shown, and its rules make a policy.
#include "base/mem.h"
#include "model/project.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct net_part *net)
{
	struct policy p = {0};
	struct err e;
	if (net_add(&p, net, "fuzz", NULL, &e) && e.kind != ERR_LIMIT)
		abort();
	if ((p.n || p.open_all || p.ask) && !net->preset && !net->allow && !net->deny && !net->has_ask)
		abort();
	policy_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct project p;
	struct config c;
	struct err e;
	auto_buf struct buf text = BUF_INIT(8 << 20);
	if (!project_parse((const char *)data, size, &p, &e)) {
		project_json(&text, &p);
		use(&p.wishes.net);
		use(&p.wishes.setup_net);
		project_done(&p);
	}
	if (!config_parse((const char *)data, size, &c, &e)) {
		use(&c.net);
		config_done(&c);
	}
	return 0;
}
