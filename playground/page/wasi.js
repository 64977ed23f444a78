// A file system in memory for one run of a WebAssembly program, as the system
// interface WASI preview 1 defines it. Files are bytes under absolute paths;
// standard output and error are gathered; the clock and random numbers are
// constant, so that the same inputs give the same bytes. Example:
//
//   const system = new Wasi(['shardc', 'show', 'mesh'], new Map([['/a.yaml', bytes]]));
//   instance = await WebAssembly.instantiate(module, system.imports());
//   system.start(instance)  ->  0, and system.stdout() has the text
'use strict';

// Error numbers of WASI.
const ERROR = {badf: 8, exist: 20, fault: 21, inval: 28, isdir: 31, noent: 44,
  nosys: 52, notdir: 54, notempty: 55, notsup: 58, spipe: 70};
const TYPE = {character: 2, directory: 3, file: 4};
// Flags of path_open and fd_fdstat_get.
const CREATE = 1;
const DIRECTORY = 2;
const EXCLUSIVE = 4;
const TRUNCATE = 8;
const APPEND = 1;
const WRITE = 1n << 6n;  // the right to write
const ALL_RIGHTS = (1n << 30n) - 1n;
const ROOT = 3;  // the descriptor of the folder `/`

class Exit extends Error {
  constructor(status) {
    super('exit ' + status);
    this.status = status;
  }
}

// Bytes that grow.
class Bytes {
  constructor(bytes) {
    this.data = bytes || new Uint8Array(0);
    this.size = this.data.length;
  }

  resize(size) {
    if (size > this.data.length) {
      const grown = new Uint8Array(Math.max(size, this.data.length * 2));
      grown.set(this.data.subarray(0, this.size));
      this.data = grown;
    } else if (size < this.size) {
      this.data.fill(0, size, this.size);
    }
    this.size = size;
  }

  write(at, bytes) {
    if (at + bytes.length > this.size) this.resize(at + bytes.length);
    this.data.set(bytes, at);
  }

  all() {
    return this.data.subarray(0, this.size);
  }
}

// `/a/./b/../c` -> `/a/c`
function normalPath(path) {
  const parts = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return '/' + parts.join('/');
}

function folderOf(path) {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 1));
}

class Wasi {
  // `files` maps absolute paths to Uint8Array.
  constructor(args, files, environment = []) {
    this.args = args;
    this.environment = environment;
    this.folders = new Set(['/']);
    this.files = new Map();
    this.inodes = new Map();
    for (const [path, bytes] of files) {
      const name = normalPath(path);
      this.files.set(name, new Bytes(bytes.slice()));
      for (let at = folderOf(name); !this.folders.has(at); at = folderOf(at)) {
        this.folders.add(at);
      }
    }
    this.output = [new Bytes(), new Bytes()];
    this.open = new Map([
      [0, {type: TYPE.character, bytes: new Bytes(), at: 0}],
      [1, {type: TYPE.character, bytes: this.output[0], at: 0, append: true}],
      [2, {type: TYPE.character, bytes: this.output[1], at: 0, append: true}],
      [ROOT, {type: TYPE.directory, path: '/'}]]);
    this.next = ROOT + 1;
    this.encoder = new TextEncoder();
    this.decoder = new TextDecoder();
  }

  stdout() {
    return this.decoder.decode(this.output[0].all());
  }

  stderr() {
    return this.decoder.decode(this.output[1].all());
  }

  // Runs the program to its end and returns its exit status.
  start(instance) {
    this.memory = instance.exports.memory;
    try {
      instance.exports._start();
    } catch (error) {
      if (error instanceof Exit) return error.status;
      throw error;
    }
    return 0;
  }

  view() {
    return new DataView(this.memory.buffer);
  }

  slice(at, size) {
    return new Uint8Array(this.memory.buffer, at, size);
  }

  text(at, size) {
    return this.decoder.decode(this.slice(at, size).slice());
  }

  // The vectors of a gathering or scattering call, as arrays in memory.
  vectors(at, count) {
    const view = this.view();
    const out = [];
    for (let i = 0; i < count; ++i) {
      out.push(this.slice(view.getUint32(at + 8 * i, true),
                          view.getUint32(at + 8 * i + 4, true)));
    }
    return out;
  }

  pathAt(fd, at, size) {
    const folder = this.open.get(fd);
    if (!folder || folder.type !== TYPE.directory) return null;
    return normalPath(folder.path + '/' + this.text(at, size));
  }

  isThere(path) {
    return this.files.has(path) || this.folders.has(path);
  }

  inode(path) {
    if (!this.inodes.has(path)) this.inodes.set(path, this.inodes.size + 1);
    return BigInt(this.inodes.get(path));
  }

  // Names in a folder, in order.
  names(folder) {
    const prefix = folder === '/' ? '/' : folder + '/';
    const out = [];
    for (const path of [...this.files.keys(), ...this.folders]) {
      const name = path.slice(prefix.length);
      if (path.startsWith(prefix) && name !== '' && !name.includes('/')) {
        out.push(name);
      }
    }
    return out.sort();
  }

  strings(list, pointers, buffer) {
    const view = this.view();
    for (const text of list) {
      view.setUint32(pointers, buffer, true);
      pointers += 4;
      const bytes = this.encoder.encode(text + '\0');
      this.slice(buffer, bytes.length).set(bytes);
      buffer += bytes.length;
    }
    return 0;
  }

  sizes(list, count, bytes) {
    const total = list.reduce(
        (sum, text) => sum + this.encoder.encode(text).length + 1, 0);
    this.view().setUint32(count, list.length, true);
    this.view().setUint32(bytes, total, true);
    return 0;
  }

  fileStat(at, type, size, inode) {
    const view = this.view();
    this.slice(at, 64).fill(0);
    view.setBigUint64(at, 1n, true);  // the device
    view.setBigUint64(at + 8, inode, true);
    view.setUint8(at + 16, type);
    view.setBigUint64(at + 24, 1n, true);  // links
    view.setBigUint64(at + 32, BigInt(size), true);
    return 0;
  }

  pathStat(path, at) {
    if (this.files.has(path)) {
      return this.fileStat(at, TYPE.file, this.files.get(path).size,
                           this.inode(path));
    }
    if (!this.folders.has(path)) return ERROR.noent;
    return this.fileStat(at, TYPE.directory, 0, this.inode(path));
  }

  openPath(path, flags, rights, fdFlags, out) {
    const writes = (rights & WRITE) !== 0n;
    if (this.folders.has(path)) {
      if (flags & CREATE && flags & EXCLUSIVE) return ERROR.exist;
      if (writes) return ERROR.isdir;
      this.open.set(this.next, {type: TYPE.directory, path});
    } else {
      if (flags & DIRECTORY) {
        return this.files.has(path) ? ERROR.notdir : ERROR.noent;
      }
      if (!this.files.has(path)) {
        if (!(flags & CREATE) || !this.folders.has(folderOf(path))) {
          return ERROR.noent;
        }
        this.files.set(path, new Bytes());
      } else if (flags & CREATE && flags & EXCLUSIVE) {
        return ERROR.exist;
      }
      const bytes = this.files.get(path);
      if (flags & TRUNCATE) bytes.resize(0);
      this.open.set(this.next, {type: TYPE.file, path, bytes, at: 0,
                                append: (fdFlags & APPEND) !== 0});
    }
    this.view().setUint32(out, this.next++, true);
    return 0;
  }

  // Reads or writes at `at`, or at the descriptor's own place if it is null.
  transfer(fd, vectors, count, at, done, writes) {
    const file = this.open.get(fd);
    if (!file) return ERROR.badf;
    if (file.type === TYPE.directory) return ERROR.isdir;
    const own = at === null;
    let place = own ? file.at : Number(at);
    if (own && writes && file.append) place = file.bytes.size;
    const from = place;
    for (const vector of this.vectors(vectors, count)) {
      if (writes) {
        file.bytes.write(place, vector);
        place += vector.length;
        continue;
      }
      const rest = Math.max(file.bytes.size - place, 0);
      const size = Math.min(vector.length, rest);
      vector.set(file.bytes.data.subarray(place, place + size));
      place += size;
    }
    if (own) file.at = place;
    this.view().setUint32(done, place - from, true);
    return 0;
  }

  seek(fd, offset, whence, out) {
    const file = this.open.get(fd);
    if (!file) return ERROR.badf;
    if (file.type !== TYPE.file) return ERROR.spipe;
    const from = [0, file.at, file.bytes.size][whence];
    if (from === undefined || from + Number(offset) < 0) return ERROR.inval;
    file.at = from + Number(offset);
    this.view().setBigUint64(out, BigInt(file.at), true);
    return 0;
  }

  readFolder(fd, buffer, size, cookie, used) {
    const folder = this.open.get(fd);
    if (!folder) return ERROR.badf;
    if (folder.type !== TYPE.directory) return ERROR.notdir;
    const entries = ['.', '..', ...this.names(folder.path)];
    let at = 0;
    for (let i = Number(cookie); i < entries.length && at < size; ++i) {
      const path = normalPath(folder.path + '/' + entries[i]);
      const name = this.encoder.encode(entries[i]);
      const entry = new Uint8Array(24 + name.length);
      const view = new DataView(entry.buffer);
      view.setBigUint64(0, BigInt(i + 1), true);
      view.setBigUint64(8, this.inode(path), true);
      view.setUint32(16, name.length, true);
      view.setUint8(20, this.files.has(path) ? TYPE.file : TYPE.directory);
      entry.set(name, 24);
      const part = entry.subarray(0, size - at);
      this.slice(buffer + at, part.length).set(part);
      at += part.length;
    }
    this.view().setUint32(used, at, true);
    return 0;
  }

  rename(from, to) {
    if (!this.files.has(from)) return ERROR.noent;
    if (this.folders.has(to)) return ERROR.isdir;
    this.files.set(to, this.files.get(from));
    this.inodes.set(to, this.inodes.get(from) || this.inodes.size + 1);
    if (from !== to) this.files.delete(from);
    return 0;
  }

  descriptorStat(fd, at) {
    const file = this.open.get(fd);
    if (!file) return ERROR.badf;
    const view = this.view();
    this.slice(at, 24).fill(0);
    view.setUint8(at, file.type);
    view.setUint16(at + 2, file.append ? APPEND : 0, true);
    view.setBigUint64(at + 8, ALL_RIGHTS, true);
    view.setBigUint64(at + 16, ALL_RIGHTS, true);
    return 0;
  }

  // All descriptors are ready at once: nothing here waits.
  poll(subscriptions, events, count, done) {
    const view = this.view();
    for (let i = 0; i < count; ++i) {
      this.slice(events + 32 * i, 32).fill(0);
      view.setBigUint64(events + 32 * i,
                        view.getBigUint64(subscriptions + 48 * i, true), true);
      view.setUint8(events + 32 * i + 10,
                    view.getUint8(subscriptions + 48 * i + 8));
    }
    view.setUint32(done, count, true);
    return 0;
  }

  descriptorCalls() {
    const known = (fd) => (this.open.has(fd) ? 0 : ERROR.badf);
    return {
      fd_advise: known,
      fd_allocate: () => ERROR.notsup,
      fd_close: (fd) => (this.open.delete(fd) ? 0 : ERROR.badf),
      fd_datasync: known,
      fd_fdstat_get: (fd, at) => this.descriptorStat(fd, at),
      fd_fdstat_set_flags: known,
      fd_filestat_get: (fd, at) => {
        const file = this.open.get(fd);
        if (!file) return ERROR.badf;
        return file.path ? this.pathStat(file.path, at) :
            this.fileStat(at, file.type, 0, 0n);
      },
      fd_filestat_set_size: (fd, size) => {
        const file = this.open.get(fd);
        if (!file || file.type !== TYPE.file) return ERROR.badf;
        file.bytes.resize(Number(size));
        return 0;
      },
      fd_filestat_set_times: known,
      fd_pread: (fd, at, count, offset, done) =>
        this.transfer(fd, at, count, offset, done, false),
      fd_prestat_dir_name: (fd, at, size) => {
        if (fd !== ROOT) return ERROR.badf;
        this.slice(at, size).set(this.encoder.encode('/').subarray(0, size));
        return 0;
      },
      fd_prestat_get: (fd, at) => {
        if (fd !== ROOT) return ERROR.badf;
        this.view().setUint32(at, 0, true);
        this.view().setUint32(at + 4, 1, true);
        return 0;
      },
      fd_pwrite: (fd, at, count, offset, done) =>
        this.transfer(fd, at, count, offset, done, true),
      fd_read: (fd, at, count, done) =>
        this.transfer(fd, at, count, null, done, false),
      fd_readdir: (fd, buffer, size, cookie, used) =>
        this.readFolder(fd, buffer, size, cookie, used),
      fd_renumber: (from, to) => {
        if (!this.open.has(from)) return ERROR.badf;
        this.open.set(to, this.open.get(from));
        this.open.delete(from);
        return 0;
      },
      fd_seek: (fd, offset, whence, out) => this.seek(fd, offset, whence, out),
      fd_sync: known,
      fd_tell: (fd, out) => this.seek(fd, 0n, 1, out),
      fd_write: (fd, at, count, done) =>
        this.transfer(fd, at, count, null, done, true),
    };
  }

  pathCalls() {
    return {
      path_create_directory: (fd, at, size) => {
        const path = this.pathAt(fd, at, size);
        if (this.isThere(path)) return ERROR.exist;
        if (!this.folders.has(folderOf(path))) return ERROR.noent;
        this.folders.add(path);
        return 0;
      },
      path_filestat_get: (fd, flags, at, size, out) =>
        this.pathStat(this.pathAt(fd, at, size), out),
      path_filestat_set_times: () => 0,
      path_link: () => ERROR.notsup,
      path_open: (fd, lookup, at, size, flags, rights, inherited, fdFlags,
                  out) =>
        this.openPath(this.pathAt(fd, at, size), flags, rights, fdFlags, out),
      path_readlink: (fd, at, size) =>
        (this.isThere(this.pathAt(fd, at, size)) ? ERROR.inval : ERROR.noent),
      path_remove_directory: (fd, at, size) => {
        const path = this.pathAt(fd, at, size);
        if (!this.folders.has(path)) return ERROR.noent;
        if (this.names(path).length > 0) return ERROR.notempty;
        this.folders.delete(path);
        return 0;
      },
      path_rename: (fd, at, size, toFd, toAt, toSize) =>
        this.rename(this.pathAt(fd, at, size),
                    this.pathAt(toFd, toAt, toSize)),
      path_symlink: () => ERROR.notsup,
      path_unlink_file: (fd, at, size) => {
        const path = this.pathAt(fd, at, size);
        if (this.folders.has(path)) return ERROR.isdir;
        return this.files.delete(path) ? 0 : ERROR.noent;
      },
    };
  }

  imports() {
    const calls = {
      args_get: (at, buffer) => this.strings(this.args, at, buffer),
      args_sizes_get: (count, bytes) => this.sizes(this.args, count, bytes),
      environ_get: (at, buffer) =>
        this.strings(this.environment, at, buffer),
      environ_sizes_get: (count, bytes) =>
        this.sizes(this.environment, count, bytes),
      clock_res_get: (id, at) => {
        this.view().setBigUint64(at, 1n, true);
        return 0;
      },
      clock_time_get: (id, precision, at) => {
        this.view().setBigUint64(at, 0n, true);
        return 0;
      },
      poll_oneoff: (from, to, count, done) => this.poll(from, to, count, done),
      proc_exit: (status) => {
        throw new Exit(status);
      },
      random_get: (at, size) => {
        this.slice(at, size).fill(7);
        return 0;
      },
      sched_yield: () => 0,
      ...this.descriptorCalls(),
      ...this.pathCalls(),
    };
    // Sockets and the rest: a call that this system lacks.
    const all = new Proxy(calls, {
      get: (known, name) => known[name] || (() => ERROR.nosys),
      has: () => true,
    });
    return {wasi_snapshot_preview1: all};
  }
}

if (typeof module !== 'undefined') module.exports = {Wasi};
