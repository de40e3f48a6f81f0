// Pages opened from the file system: browsers start no Worker there, and the search needs one.
// Its script runs in a hidden frame instead, which answers by the same two functions.
(function () {
  if (location.protocol !== "file:") return;

  window.Worker = class LocalWorker {
    constructor(address) {
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.deliver(this, data);
      const script = inner.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(this.frame.contentWindow, data);
    }

    // As between real threads, each side has a copy of its own.
    deliver(receiver, data) {
      const copy = structuredClone(data);
      setTimeout(() => receiver.onmessage && receiver.onmessage({ data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  };
})();
