// SPDX-License-Identifier: Apache-2.0
// Two previews in one browser under one public name: node neighbour.mjs NODE_MODULES CHROMIUM PROFILE NAME ADDRESS LINK-A LINK-B. Both links
// are followed, from a page of another site; then the page of A does to B what pages can do. Says as one line of JSON what came of it.
import { createRequire } from "node:module";
const [modules, chromium, profile, name, address, ...links] = process.argv.slice(2);
const puppeteer = createRequire(`${modules}/x.js`)("puppeteer-core");
const browser = await puppeteer.launch({
	executablePath: chromium, userDataDir: profile, headless: true,
	args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		`--host-resolver-rules=MAP *.${name} ${address}`],
});
const page = await browser.newPage();
const seen = { opened: [] };
for (const link of links) {
	await page.goto("data:text/html,<a id=a>x</a>");
	await page.evaluate((to) => { document.querySelector("#a").href = to; }, link);
	await page.click("#a");
	await page.waitForFunction(() => document.body && document.body.innerText.includes("hello"), { timeout: 60000 });
	seen.opened.push([new URL(page.url()).search, (await page.cookies()).map((c) => c.sameSite)]);
}
const [a, b] = links.map((l) => new URL(l).origin);
await page.goto(a);
// A frame that is refused may never say that it has loaded: patience is how long it is waited for.
const attack = async (to, patience) => page.evaluate(async (to, patience) => {
	const loaded = (frame) => new Promise((done) => { frame.onload = done; setTimeout(done, patience); });
	const socket = await new Promise((done) => {
		const ws = new WebSocket(`${to.replace("http", "ws")}/ws`);
		ws.onopen = () => done("open");
		ws.onerror = () => done("refused");
	});
	const said = async (f) => f.then((r) => r.status, () => "refused");
	const post = await said(fetch(to, { method: "POST", mode: "no-cors", credentials: "include", body: "attack" }));
	const read = await said(fetch(to, { credentials: "include" }));
	const form = document.createElement("form");
	const frame = document.createElement("iframe");
	frame.name = "f";
	document.body.append(frame, form);
	Object.assign(form, { method: "post", action: `${to}/form`, target: "f" });
	const sent = loaded(frame);
	form.submit();
	await sent;
	const inner = document.createElement("iframe");
	inner.src = to;
	const shown = loaded(inner);
	document.body.append(inner);
	await shown;
	let framed = "refused";
	try {
		framed = inner.contentDocument ? inner.contentDocument.body.innerText : "refused";
	} catch { /* another origin */ }
	return { socket, post, read, framed };
}, to, patience);
seen.own = await attack(a, 60000);
seen.other = await attack(b, 3000);
await page.goto("about:blank");
console.log(JSON.stringify(seen));
await browser.close();
