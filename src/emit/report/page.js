"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("has-js");

  // Links and figures in folded sections open what hides them.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    const own = target.matches(".fold") ? target.querySelector("details") : target;
    for (let one = own; one; one = one.parentElement.closest("details")) {
      if (one.matches("details")) one.open = true;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) reveal();
  });
  reveal();

  const folds = [...document.querySelectorAll(".fold>details")];
  const all = document.getElementById("all");
  if (all) {
    all.addEventListener("click", () => {
      const open = folds.some((one) => !one.open);
      for (const one of folds) one.open = open;
      all.textContent = open ? "Close all" : "Open all";
    });
  }

  // Paper cannot be clicked: all is open while the page is printed.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
    closed = [];
  });

  for (const field of document.querySelectorAll("[data-rows]")) {
    const rows = [...document.querySelectorAll("#" + field.dataset.rows + " tr")];
    const status = field.parentElement.querySelector("[role=status]");
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => texts[i].includes(word));
      });
      const shown = rows.filter((row) => row.getClientRects().length).length;
      status.textContent = words.length ? shown + " of " + rows.length + " rows" : "";
    };
    field.addEventListener("input", filter);
    document.addEventListener("change", filter);
  }

  for (const table of document.querySelectorAll(".sort")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => {
      if (head.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const number = head.classList.contains("r");
        const was = head.getAttribute("aria-sort");
        const up = was ? was === "descending" : !number;
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const order = (a, b) => {
          const [one, other] = [a.cells[column], b.cells[column]];
          return number ? one.dataset.v - other.dataset.v
            : one.textContent.localeCompare(other.textContent, "en", {numeric: true});
        };
        body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
      });
    });
  }

  // `3,4x8,32x2`: numbers from 3 on, 8 of them 4 apart, and these twice.
  const holds = (set, device) => {
    const [first, ...digits] = set.split(",");
    let rest = device - Number(first);
    for (const digit of digits.reverse()) {
      const [stride, size] = digit.split("x").map(Number);
      rest -= Math.min(size - 1, Math.max(0, Math.floor(rest / stride))) * stride;
    }
    return rest === 0;
  };
  const tiles = [...document.querySelectorAll("[data-d]")];
  const light = (tile) => {
    const device = Number(tile.dataset.d.split(",")[0]);
    for (const one of tiles) {
      one.classList.toggle("lit", holds(one.dataset.d, device));
    }
    const line = tile.closest("figure,section").querySelector(".selected");
    const title = tile.querySelector("title");
    if (line && title) line.textContent = title.textContent;
  };
  for (const tile of tiles) {
    tile.addEventListener("pointerenter", () => light(tile));
  }
  for (const draw of document.querySelectorAll(".draw")) {
    const own = [...draw.querySelectorAll("[data-d]")];
    const across = Number(draw.dataset.across || 1);
    let at = -1;
    const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across};
    draw.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step || !own.length) return;
      event.preventDefault();
      at = at < 0 ? 0 : Math.min(own.length - 1, Math.max(0, at + step));
      light(own[at]);
      own[at].scrollIntoView({block: "nearest", inline: "nearest"});
    });
  }
})();
