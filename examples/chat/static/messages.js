// The messages of a conversation, as the events of its runs say. It knows nothing of the page.

export class Messages {
  /** `changed(id)` is called for each message that came, grew or went. */
  constructor(changed) {
    this.changed = changed;
    this.all = new Map(); // id -> { type, content, whole, cut }
    this.current = ""; // the message that a piece without an id belongs to
    this.missed = false; // whether events were lost: pieces may lack their beginning
  }

  /** Take stored messages in the place of all that is here. */
  replace(stored) {
    const gone = [...this.all.keys()];
    this.all = new Map(stored.map((one) => [one.id, { ...one, whole: true, cut: false }]));
    for (const id of new Set([...gone, ...this.all.keys()])) this.changed(id);
  }

  add(message) {
    this.all.set(message.id, { ...message, whole: true, cut: false });
    this.changed(message.id);
  }

  take(name, data) {
    if (name === "messages") Array.isArray(data) ? this.begin(data[0]) : this.more(data);
    else if (name === "messages/dropped") this.drop(data.ids); // written anew by a later attempt
    else if (name === "metadata") this.missed = false; // a new attempt writes from the start
    else if (name === "gap") {
      this.missed = true;
      this.drop([...this.all].filter(([, one]) => !one.whole).map(([id]) => id));
    } else if (name === "values" && this.missed) {
      this.replace(data.messages.filter((one) => typeof one.content === "string"));
    }
  }

  /** The first piece on a connection, a piece with more than text, or a whole message. */
  begin(message) {
    this.current = message.id;
    const known = this.all.get(message.id);
    if (!message.type.endsWith("Chunk")) this.add(message);
    else if (known === undefined) {
      const { id, content } = message;
      this.all.set(id, { id, type: "ai", content, whole: false, cut: this.missed });
      this.changed(id);
    } else this.more(message);
  }

  more({ id, content }) {
    this.current = id ?? this.current;
    const message = this.all.get(this.current);
    if (message === undefined || message.whole) return; // the stored message has it already
    message.content += content;
    this.changed(this.current);
  }

  drop(ids) {
    for (const id of ids) {
      this.all.delete(id);
      this.changed(id);
    }
  }
}
