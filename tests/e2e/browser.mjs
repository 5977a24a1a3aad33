// SPDX-License-Identifier: Apache-2.0
// A real browser on a preview: node browser.mjs NODE_MODULES CHROMIUM URL PROFILE. Says on stdout what it sees, line by line:
// the page's text whenever it changes, and what the page can see of our cookie.
import { createRequire } from "node:module";
const [modules, chromium, url, profile] = process.argv.slice(2);
const puppeteer = createRequire(`${modules}/x.js`)("puppeteer-core");
const browser = await puppeteer.launch({
	executablePath: chromium, userDataDir: profile, headless: true,
	args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"],
});
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const page = await browser.newPage();
await page.exposeFunction("say", say);
page.on("pageerror", (e) => say({ error: String(e) }));
await page.evaluateOnNewDocument(() => {
	addEventListener("DOMContentLoaded", () => {
		const app = document.querySelector("#app");
		if (!app) return;
		const tell = () => say({ text: app.textContent, color: getComputedStyle(app).color, loads: performance.getEntriesByType("navigation").length, mark: window.mark ?? 0 });
		new MutationObserver(tell).observe(app, { childList: true, characterData: true, subtree: true });
		if (app.textContent) tell();
	});
});
const answer = await page.goto(url);
await page.evaluate(() => { window.mark = 1; });
say({ status: answer.status(), url: page.url(), cookie: await page.evaluate(() => document.cookie),
	kept: (await page.cookies()).map((c) => [c.name, c.domain, c.httpOnly, c.sameSite]) });
process.stdin.resume();
await new Promise((done) => process.stdin.on("end", done));
await browser.close();
