/* What the speech player knows at a time: the frame, the labels read so far, and how to say it. It draws nothing, plays
   nothing and knows no page. A state of a network is {name, path, percent}, the row of the best symbol in each frame and
   its probability, or {name, read}, a list of [row, frame, percent]; the player's data are described in player.py. */
"use strict";

const SpeechPlayer = (() => {
  const ALMOST = 1e-3; // of a frame: a browser rounds the time of a recording

  /* The frame at a time; before the first it is the first, and after the last the last. */
  function frameAt(seconds, step, count) {
    return Math.max(0, Math.min(count - 1, Math.floor(seconds / step + ALMOST)));
  }

  const frameCount = (data) => Math.max(1, Math.ceil(data.seconds / data.step - ALMOST));

  /* Best path to labels: of each run of a row the first frame, and no blanks. */
  function collapse(path, blank) {
    return path.map((row, frame) => ({ row, frame })).filter(({ row, frame }) => row !== blank && row !== path[frame - 1]);
  }

  function readOf(state, blank) {
    return state.read ? state.read.map(([row, frame]) => ({ row, frame })) : collapse(state.path, blank);
  }

  /* How many of the labels are read when a frame has been heard; all of them if it is null, before the player begins. */
  function litCount(read, frame) {
    return frame === null ? read.length : read.filter((each) => each.frame <= frame).length;
  }

  const textOf = (read, letters, count = read.length) => read.slice(0, count).map(({ row }) => letters[row]).join("");

  /* The rows heard in a frame, and the probability of the first: the best symbol, or what is read there. */
  function heardIn(state, blank, frame) {
    if (!state.read) {
      const at = Math.min(frame, state.path.length - 1);
      return { rows: [state.path[at]], percent: state.percent[at] };
    }
    const read = state.read.filter((each) => each[1] === frame);
    return read.length ? { rows: read.map(([row]) => row), percent: read[0][2] } : { rows: [blank], percent: null };
  }

  const nameOf = (data, row) => (row === data.blank ? "the blank" : data.letters[row] === " " ? "a space" : data.letters[row]);

  /* "0.42 s, hears e, 0.97" */
  function said(data, state, seconds) {
    const { rows, percent } = heardIn(state, data.blank, frameAt(seconds, data.step, frameCount(data)));
    const share = percent === null || rows.length > 1 ? "" : `, ${(percent / 100).toFixed(2)}`;
    return `${seconds.toFixed(2)} s, hears ${rows.map((row) => nameOf(data, row)).join(" ")}${share}`;
  }

  const reads = (text) => (text ? `reads “${text}”` : "reads nothing");

  return { collapse, frameAt, frameCount, heardIn, litCount, readOf, reads, said, textOf };
})();

if (typeof module !== "undefined") module.exports = SpeechPlayer;
