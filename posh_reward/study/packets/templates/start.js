// Once all scripts are read.

// What gets the focus is scrolled to above the bar of buttons, however high that is.
new ResizeObserver(([bar]) => document.documentElement.style.setProperty("--bar",
  `${bar.borderBoxSize[0].blockSize}px`)).observe(document.querySelector("nav"));
history.replaceState({ place: -1 }, "");
recall();
drawAbout();
progress();
if (served) {
  byId("sent").hidden = false;
  byId("keeping").textContent = text("keeping_served");
  byId("end-title").textContent = text("finish");
  send();
}
document.querySelector(".progress").hidden = false;
